#!/usr/bin/env bash
# What an audit takes: writes an archive of a million records (some 4.3 GB; some minutes), audits it, and
# prints the table of docs/archive.md.
#
#     docs/dev/archive-figures.sh [RECORDS]
#
# The archive is as another crawler would write it: sha1 digests, a gzip member for each record, pages of 12
# KB of a thousand hosts. Needs python3, and GNU time for the memory.
set -euo pipefail
cd "$(dirname "$0")/../.."
records=${1:-1000000}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cargo build --quiet --release -p abide-cli

python3 - "$directory/big.warc.gz" "$records" <<'PYTHON'
import base64, datetime, hashlib, random, sys, zlib

path, count, hosts = sys.argv[1], int(sys.argv[2]), 1000
chance = random.Random(1)
words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11))) for _ in range(4000)]
head = (
    '<!doctype html><html lang=en><head><meta charset=utf-8><title>A page</title><meta name=viewport content="width=device-width">'
    '<meta name="description" content="some page"><link rel=stylesheet href=/style.css><meta name=robots content="max-snippet:50"></head>'
)
# Texts that differ, put together from paragraphs that are made once.
paragraphs = ["<p>" + " ".join(chance.choices(words, k=90)) for _ in range(2000)]
begin = datetime.datetime(2026, 1, 1)


def member(kind, url, at, block, number):
    digest = base64.b32encode(hashlib.sha1(block).digest()).decode()
    payload = base64.b32encode(hashlib.sha1(block.split(b"\r\n\r\n", 1)[1]).digest()).decode()
    text = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012}>\r\n"
        f"WARC-Target-URI: {url}\r\nWARC-Date: {at.isoformat()}Z\r\nWARC-Block-Digest: sha1:{digest}\r\n"
        f"WARC-Payload-Digest: sha1:{payload}\r\n"
        f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    gzip = zlib.compressobj(6, zlib.DEFLATED, 31)
    return gzip.compress(text.encode() + block + b"\r\n\r\n") + gzip.flush()


with open(path, "wb") as file:
    for number in range(0, count, 2):
        turn, host = divmod(number // 2, hosts)
        url = f"http://host-{host}.example/" + (f"page-{turn}.html" if turn else "robots.txt")
        at = begin + datetime.timedelta(seconds=2 * turn)
        request = f"GET / HTTP/1.1\r\nHost: host-{host}.example\r\nUser-Agent: OtherBot/1.0\r\n\r\n".encode()
        if turn:
            body = head + "".join(chance.choices(paragraphs, k=20))
            response = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        else:
            response = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\nDisallow: /private/\n"
        file.write(member("request", url, at, request, number))
        file.write(member("response", url, at, response.encode(), number + 1))
PYTHON

size=$(stat -c %s "$directory/big.warc.gz")
/usr/bin/time -f '%e %M' -o "$directory/time" target/release/abide audit "$directory/big.warc.gz"
read -r seconds memory < "$directory/time"
echo "| records | gzip input | time | rate | memory |"
echo "| --- | --- | --- | --- | --- |"
awk -v records="$records" -v size="$size" -v seconds="$seconds" -v memory="$memory" 'BEGIN {
    printf "| %d | %.0f MB | %.1f s | %.0f MB/s | %.0f MB |\n", records, size / 1e6, seconds, size / 1e6 / seconds, memory / 1024 }'
