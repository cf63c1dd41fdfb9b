#!/usr/bin/env bash
# Regenerates docs/crawl.png: starts the small web of the examples on loopback, crawls its four houses with
# `abide crawl --report`, and has the report drawn by a browser without a window. Needs Chromium (apt-get
# install chromium) and half a minute. Usage: docs/crawl.sh [FILE.png]
set -euo pipefail
cd "$(dirname "$0")/.."
picture=${1:-docs/crawl.png}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) \
  || { echo "there is no Chromium (apt-get install chromium)"; exit 1; }

cargo build --quiet -p abide-cli --example web --bin abide
target=${CARGO_TARGET_DIR:-target}/debug
work=$(mktemp -d)
"$target/examples/web" > "$work/web" &
web=$!
trap 'kill "$web" 2>/dev/null || true; rm -rf "$work"' EXIT
until address=$(grep -om1 '127\.0\.0\.1:[0-9]*' "$work/web"); do sleep 0.1; done

"$target/abide" crawl --allow-net 127.0.0.1 --resolve "*:80:$address" --delay 500ms --max-pages 100 --report "$work/report.html" \
  http://harbour.example/ http://museum.example/ http://station.example/ http://theatre.example/

"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 --window-size=1000,578 \
  --user-data-dir="$work/profile" --screenshot="$work/crawl.png" "file://$work/report.html" 2> "$work/browser.log" \
  || { cat "$work/browser.log"; exit 1; }
mv "$work/crawl.png" "$picture"
echo "$picture is regenerated"
