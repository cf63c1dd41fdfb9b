"""What independent readers say of WARC files: warcio and fastwarc read every record and check every digest.

Prints a JSON line for each record, as warcio replays it: its named fields, the HTTP head, and the body without its
content coding. Ends with an error at the first record that either of them does not accept.
"""

import base64
import json
import sys

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator


def by_warcio(path):
    with open(path, "rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            body = record.content_stream().read()
            http = record.http_headers
            yield {
                "file": path,
                "fields": dict(record.rec_headers.headers),
                "first": http and f"{http.protocol} {http.statusline}",
                "http": http and http.headers,
                "body": base64.b64encode(body).decode(),
            }


def by_fastwarc(path):
    """How many records it reads. A record must state the digest of its block, and an HTTP message that of its payload;
    the payload of a revisit is elsewhere."""
    count = 0
    with open(path, "rb") as file:
        for record in FastIterator(file, parse_http=False):
            kind = record.headers.get("WARC-Type")
            good = record.verify_block_digest()
            if kind in ("request", "response"):
                record.parse_http()
                good = good and record.verify_payload_digest()
            if not good:
                raise SystemExit(f"{path}: fastwarc: a digest of {record.record_id} ({kind}) is wrong")
            count += 1
    return count


for path in sys.argv[1:]:
    records = list(by_warcio(path))
    if by_fastwarc(path) != len(records):
        raise SystemExit(f"{path}: fastwarc and warcio count different numbers of records")
    for record in records:
        print(json.dumps(record))
