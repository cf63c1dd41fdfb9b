#!/bin/sh
# Crawls SITE by abide-fetch.sh until SECONDS have passed, each kind once at least: a line for each URL.
set -u
until=$(($(date +%s) + ${SECONDS_LONG}))
number=0
# One URL: curl would make two of it.
"$CLIENTS/shell/abide-fetch.sh" "$SITE/{page,private}/brackets-1" > /dev/null && echo brackets 200
while :; do
    for kind in page redirect private out slow busy; do
        [ "$number" -eq 0 ] || [ "$(date +%s)" -lt "$until" ] || exit 0
        if answer=$("$CLIENTS/shell/abide-fetch.sh" "$SITE/$kind/shell-$number" 2>&1); then
            echo "$kind 200"
        else
            echo "$kind $(printf '%s' "$answer" | sed -n 's/.*"outcome":"\([a-z]*\)".*/\1/p')"
        fi
    done
    number=$((number + 1))
done
