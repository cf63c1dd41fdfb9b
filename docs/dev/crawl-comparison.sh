#!/usr/bin/env bash
# A crawl of 200 hosts with 100 pages of 10 KB each, without delay, on loopback: with abide, by hand with
# reqwest and texting_robots, with the crate spider, and with Scrapy. Prints the table of
# docs/dev/performance.md. Processor time is the crawler's alone, start and end included; the server is a
# process of its own.
#
#     docs/dev/crawl-comparison.sh [ROUNDS]    the crawlers take turns, 25 times by default; the table shows medians
#
# Linux only: each host is an address of 127.0.0.0/8. What is not here is set up in a temporary directory,
# once (CRAWL_COMPARISON_DIR), from the public registries; spider alone builds for minutes. What cannot be set
# up is left out, and the run says so on standard error.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-25} hosts=200 pages=100
spider_version=2.53.9 scrapy_version=2.19.0
sources=$PWD/docs/dev/crawl-comparison
place=${CRAWL_COMPARISON_DIR:-${TMPDIR:-/tmp}/abide-crawl-comparison}
mkdir -p "$place/spider"

bench=$(cargo bench -p abide --bench overhead --no-run 2>&1 | grep -o '[^ (]*/release/deps/overhead-[0-9a-f]*')
crawlers=(by-hand abide abide-without-scan)

spider=$place/spider/target/release/spider-crawl
cat > "$place/spider/Cargo.toml" <<END
[package]
name = "spider-crawl"
edition = "2024"
[[bin]]
name = "spider-crawl"
path = "$sources/spider.rs"
[dependencies]
spider = { version = "=$spider_version", default-features = false, features = ["sync"] }
[workspace]
END
if cargo build --quiet --release --manifest-path "$place/spider/Cargo.toml" --target-dir "$place/spider/target" >&2; then
    crawlers+=(spider)
else
    echo "spider could not be built" >&2
fi

if { [ -d "$place/venv" ] || python3 -m venv "$place/venv"; } && "$place/venv/bin/pip" install --quiet "scrapy==$scrapy_version" >&2; then
    crawlers+=(scrapy)
else
    echo "Scrapy could not be installed" >&2
fi

crawl() {
    case $1 in
        spider) "$spider" "${addresses[@]}" ;;
        scrapy) "$place/venv/bin/python" "$sources/crawl.py" "$pages" "${addresses[@]}" ;;
        *) "$bench" --crawl "$1" "${addresses[@]}" ;;
    esac
}
named() {
    case $1 in
        by-hand) echo "by hand: reqwest, texting_robots" ;;
        abide-without-scan) echo "abide, heads not scanned" ;;
        spider) echo "spider $spider_version" ;;
        scrapy) echo "Scrapy $scrapy_version" ;;
        *) echo "$1" ;;
    esac
}

measured=$place/measured
: > "$measured"
exec 3< <(exec "$bench" --serve)
server=$!
trap 'kill "$server"' EXIT
read -r port <&3
addresses=()
for ((host = 1; host <= hosts; host++)); do addresses+=("127.0.1.$host:$port"); done

TIMEFORMAT='%3U %3S'
for ((round = 1; round <= rounds; round++)); do
    for crawler in "${crawlers[@]}"; do
        # A crawl by hand takes half a second of processor time, of which the kernel counts ticks, and varies
        # by a third. These two take longer, and vary less.
        case $crawler in
            spider) ((round > 5)) && continue ;;
            scrapy) ((round > 2)) && continue ;;
        esac
        used=$({ time crawl "$crawler" > "$place/pages"; } 2>&1 | tail -n 1)
        echo "$crawler $(tail -n 1 "$place/pages") $used" >> "$measured"
        echo "round $round: $(tail -n 1 "$measured")" >&2
    done
done

median() { awk -v crawler="$1" '$1 == crawler { print $2 / ($3 + $4) }' "$measured" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
by_hand=$(median by-hand)
echo "| crawler | pages per processor second | of the loop by hand |"
echo "| --- | --- | --- |"
for crawler in "${crawlers[@]}"; do
    awk -v name="$(named "$crawler")" -v rate="$(median "$crawler")" -v by_hand="$by_hand" \
        'BEGIN { printf "| %s | %d | %.2f |\n", name, rate, rate / by_hand }' | sed ':again; s/\([0-9]\)\([0-9]\{3\}\)\([ ,]\)/\1,\2\3/; t again'
done
