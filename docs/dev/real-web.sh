#!/usr/bin/env bash
# Crawls the installed Rust documentation through abide, served by nginx on loopback with a robots.txt that
# forbids part of it, and judges by nginx's own access log. Usage: docs/dev/real-web.sh [PAGES]
set -euo pipefail
cd "$(dirname "$0")/../.."
pages=${1:-5000}
root=$(rustc --print sysroot)/share/doc/rust/html
[ -d "$root" ] || { echo "no Rust documentation at $root"; exit 1; }
command -v nginx >/dev/null || { echo "nginx is not installed (apt-get install nginx)"; exit 1; }

work=$(mktemp -d)
port=${PORT:-18309}
mkdir "$work/site"
ln -s "$root" "$work/site/html"
cat > "$work/site/robots.txt" <<'TXT'
User-agent: *
Disallow: /html/std/
Disallow: /html/core/arch/
Disallow: /*/intrinsics/
Allow: /html/std/vec/
Disallow: /html/*.js$
TXT
cat > "$work/nginx.conf" <<CONF
user $(id -un) $(id -gn);
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 512; }
http {
  include /etc/nginx/mime.types;
  charset utf-8;
  log_format plain '\$msec \$status \$request_method \$request_uri "\$http_user_agent"';
  access_log $work/access.log plain;
  server { listen 127.0.0.1:$port; root $work/site; index index.html; }
}
CONF
nginx -c "$work/nginx.conf" -p "$work"
trap 'nginx -c "$work/nginx.conf" -p "$work" -s stop 2>/dev/null || true; sleep 0.3; rm -rf "$work"' EXIT

cargo build --release --quiet -p abide-cli
started=$(date +%s.%N)
target/release/abide crawl --delay 0 --max-pages "$pages" --allow-net 127.0.0.1/32 --quiet --agent ExampleBot \
  "http://127.0.0.1:$port/html/book/index.html" "http://127.0.0.1:$port/html/core/index.html" \
  "http://127.0.0.1:$port/html/alloc/index.html" | tail -n 12
ended=$(date +%s.%N)

log=$work/access.log
forbidden=$(awk '{print $4}' "$log" | grep -E '^/html/std/|^/html/core/arch/|/intrinsics/|^/html/.*\.js$' | grep -vcE '^/html/std/vec/' || true)
echo
echo "nginx saw $(wc -l < "$log") requests in $(awk "BEGIN { printf \"%.1f\", $ended - $started }") s:"
echo "  robots.txt asked    $(awk '$4 == "/robots.txt"' "$log" | wc -l) time(s)"
echo "  pages               $(awk '$4 != "/robots.txt"' "$log" | wc -l)"
echo "  allowed exceptions  $(awk '$4 ~ /^\/html\/std\/vec\//' "$log" | wc -l) (Allow: /html/std/vec/ inside Disallow: /html/std/)"
echo "  forbidden paths     $forbidden"
[ "$forbidden" = 0 ] && [ "$(awk '$4 == "/robots.txt"' "$log" | wc -l)" = 1 ]
