#!/bin/sh
# Fetches URLs through `abide serve` with curl: abide-fetch.sh URL...; bodies go to standard output.
# By hand, the three steps are:
#     curl -s -H 'Content-Type: application/json' -d '{"url": "https://example.org/"}' http://127.0.0.1:8410/v1/acquire
#     curl -q -g -A 'ExampleBot/1.0 (+https://example.com/bot)' https://example.org/    # if it is granted; without -L
#     curl -s -H 'Content-Type: application/json' -d '{"permit": "…", "status": 200}' http://127.0.0.1:8410/v1/finish
set -u
server=${ABIDE_SERVER:-http://127.0.0.1:8410}
agent=${ABIDE_USER_AGENT:-ExampleBot/1.0 (+https://example.com/bot)}
fields=$(mktemp) && body=$(mktemp) && trap 'rm -f "$fields" "$body"' EXIT

call() {
    curl -q -s --noproxy '*' -H 'Content-Type: application/json' ${ABIDE_TOKEN:+-H "Authorization: Bearer $ABIDE_TOKEN"} \
        --data-binary "$2" "$server$1"
}

# The text of a JSON string.
quoted() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }

# A member of an answer that is a string.
member() { printf '%s' "$2" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# The header fields of the last response, as [["Name","value"],…].
headers() {
    LC_ALL=C tr -cd '\012\040-\176' < "$fields" |
        sed -n 's/[\\"]/\\&/g; s/^\([!-9;-~]*\): *\(.*\)$/["\1","\2"]/p' | paste -s -d , - | sed 's/.*/[&]/'
}

fetch() {
    url=$1 hops=0
    while :; do
        answer=$(call /v1/acquire "{\"url\": \"$(quoted "$url")\"}") || return 1
        permit=$(member permit "$answer")
        if [ -z "$permit" ]; then
            echo "$answer" >&2 # denied, deferred or refused, with the reason
            return 1
        fi
        # A redirect is a URL of its own (no -L), one with brackets is one URL (-g). The permit's ttl is 60 s.
        seen=$(curl -q -g -s -A "$agent" -D "$fields" -o "$body" --max-time 50 -w '%{http_code} %{redirect_url}' --url "$url")
        case $? in
            0) end="\"status\": ${seen%% *}, \"headers\": $(headers)" ;;
            6) end='"failed": "dns"' ;;
            7) end='"failed": "connect"' ;;
            28) end='"failed": "timeout"' ;;
            35 | 60) end='"failed": "tls"' ;;
            56 | 52) end='"failed": "reset"' ;;
            *) end='"failed": "other"' ;;
        esac
        call /v1/finish "{\"permit\": \"$permit\", $end}" > /dev/null
        case $end in '"failed"'*) return 1 ;; esac
        url=${seen#* } hops=$((hops + 1))
        if [ -z "$url" ] || [ $hops -gt 10 ]; then cat "$body" && return 0; fi
    done
}

for each; do fetch "$each" || status=1; done
exit ${status:-0}
