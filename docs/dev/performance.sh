#!/usr/bin/env bash
# Measures again what docs/dev/performance.md shows, and writes the tables into it: what stands there between
# `<!-- table: NAME -->` and `<!-- end -->` is the output of the command of that name below.
#
#     docs/dev/performance.sh            all tables, in one run
#     docs/dev/performance.sh NAME...    these
#
# Some ten minutes on two cores, beside the builds; the crawl sets up the crawlers it compares with
# (crawl-comparison.sh). Instructions are counted by valgrind's callgrind; where valgrind is missing, their
# tables stay as they are, and the run says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
page=docs/dev/performance.md

# The tables, in the order of the page. What begins with `count_` needs valgrind.
tables=(machine count_parse count_match count_hostile memory gate pacer hosts middleware count_middleware crawl heads fields count_sign serve)

machine() {
    echo "| day | compiler | processors | load before |"
    echo "| --- | --- | --- | --- |"
    echo "| $(date -u +%Y-%m-%d) | $(rustc --version | cut -d ' ' -f 2) | $(nproc)$(model) | $(cut -d ' ' -f 1 /proc/loadavg) |"
}
model() { sed -n 's/^model name[^:]*: */, /p' /proc/cpuinfo | head -n 1; }
count_parse() { crates/abide-robots/benches/instructions --only parse | sed '/^| comments/d'; }
count_match() { crates/abide-robots/benches/instructions --only match | sed '/ 5 %/d; / 100 %/d'; }
count_hostile() { crates/abide-robots/benches/instructions abide --only hostile | dearest 4; }
# The head of a table, and its rows with the largest numbers in the last column.
dearest() {
    local table
    table=$(grep '^|')
    head -n 2 <<< "$table"
    tail -n +3 <<< "$table" | awk -F '|' '{ number = $(NF - 1); gsub(",", "", number); print number "\t" $0 }' | sort -rn | sed -n "1,$1 { s/^[^\t]*\t//; p }"
}
memory() { cargo run --quiet --release -p abide-robots --example memory; }
gate() { cargo bench --quiet -p abide-gate --bench gate; }
pacer() { cargo bench --quiet -p abide-gate --all-features --bench pacing; }
hosts() { cargo bench --quiet -p abide-gate --bench hosts; }
middleware() { cargo bench --quiet -p abide --bench overhead | sed '/an empty middleware/d'; }
count_middleware() { crates/abide/benches/instructions; }
crawl() { docs/dev/crawl-comparison.sh; }
heads() { cargo bench --quiet -p abide-permissions --bench permissions -- heads; }
fields() { cargo bench --quiet -p abide-permissions --bench permissions -- fields; }
count_sign() { crates/abide-identity/benches/instructions; }
serve() { cargo bench --quiet -p abide-cli --features serve --bench serve; }

# Puts the lines of a table, and nothing else of what is printed, into its place on the page.
replace() {
    local name=$1 output=$2
    grep -q "^<!-- table: $name -->$" "$page" || { echo "$page has no place for $name"; return 1; }
    awk -v name="$name" -v output="$output" '
        $0 == "<!-- table: " name " -->" { print; while ((getline line < output) > 0) if (line ~ /^\|/) print line; skip = 1; next }
        $0 == "<!-- end -->" { skip = 0 }
        !skip { print }
    ' "$page" > "$page.new"
    mv "$page.new" "$page"
}

measure() {
    local name=$1 output began=$SECONDS
    case $name in count_*)
        command -v valgrind > /dev/null || { echo "$name: valgrind is not installed, so this table stays as it was"; return; } ;;
    esac
    output=$(mktemp)
    "$name" > "$output"
    grep -q '^|' "$output" || { echo "$name: expected a table, found none"; cat "$output"; return 1; }
    replace "$name" "$output"
    echo "$name: $((SECONDS - began)) s"
    rm -f "$output"
}

for name in "${@:-${tables[@]}}"; do
    case " ${tables[*]} " in *" $name "*) ;; *) echo "expected one of ${tables[*]}, found $name"; exit 2 ;; esac
    measure "$name"
done
