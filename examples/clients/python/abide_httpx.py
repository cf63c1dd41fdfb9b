"""An httpx transport: every request, redirects included, asks `abide serve` first.

    client = httpx.Client(transport=AbideTransport(), follow_redirects=True)
"""
import os
import httpx

SERVER = os.environ.get("ABIDE_SERVER", "http://127.0.0.1:8410")


class NotGranted(httpx.TransportError):
    """`outcome`: denied or refused: skip the URL; deferred: keep it, and ask again at `retry_at`."""
    def __init__(self, answer, request):
        super().__init__(answer["why"], request=request)
        self.outcome, self.retry_at = answer["outcome"], answer.get("retry_at")


class Body(httpx.SyncByteStream):
    """The permit ends with the body: when it has been read, or is closed before."""
    def __init__(self, inner, finish):
        self.inner, self.finish = inner, finish

    def __iter__(self):
        yield from self.inner

    def close(self):
        self.inner.close()
        self.finish()


class AbideTransport(httpx.BaseTransport):
    def __init__(self, server=SERVER, token=os.environ.get("ABIDE_TOKEN"), inner=None, ttl_ms=120_000):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.server = httpx.Client(base_url=server, headers=headers, trust_env=False, timeout=None)
        self.inner, self.ttl_ms = inner or httpx.HTTPTransport(), ttl_ms

    def call(self, path, **fields):
        return self.server.post(path, json=fields).raise_for_status().json()

    def handle_request(self, request):
        granted = self.call("/v1/acquire", url=str(request.url), ttl_ms=self.ttl_ms)
        if granted["outcome"] != "granted":
            raise NotGranted(granted, request)
        permit, kinds = granted["permit"], [(httpx.TimeoutException, "timeout"), (httpx.ConnectError, "connect"),
                                            (httpx.NetworkError, "reset"), (httpx.RemoteProtocolError, "reset")]
        try:
            response = self.inner.handle_request(request)
        except Exception as failure:
            failed = next((name for kind, name in kinds if isinstance(failure, kind)), "other")
            self.call("/v1/finish", permit=permit, failed=failed)
            raise
        end = {"permit": permit, "status": response.status_code, "headers": response.headers.multi_items()}
        body = Body(response.stream, lambda: self.server.post("/v1/finish", json=end))
        return httpx.Response(response.status_code, headers=response.headers, stream=body, extensions=response.extensions)

    def close(self):
        self.inner.close()
        self.server.close()
