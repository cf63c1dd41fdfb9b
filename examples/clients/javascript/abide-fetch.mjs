// fetch() through `abide serve`: robots.txt, delays and backoffs, shared with every other crawler.
//
//     import { abideFetch } from "./abide-fetch.mjs";
//     const page = await abideFetch("https://example.org/");

const { ABIDE_SERVER = "http://127.0.0.1:8410", ABIDE_TOKEN } = process.env;
const USER_AGENT = process.env.ABIDE_USER_AGENT ?? "ExampleBot/1.0 (+https://example.com/bot)";
const TTL_MS = 120_000;

// `outcome`: denied or refused: skip the URL; deferred: keep it, and ask again at `retry_at`.
export class NotGranted extends Error {
  constructor({ outcome, why, retry_at }) {
    super(why);
    Object.assign(this, { name: "NotGranted", outcome, retry_at });
  }
}

export async function call(path, fields, signal) {
  const token = ABIDE_TOKEN ? { authorization: `Bearer ${ABIDE_TOKEN}` } : {};
  const headers = { "content-type": "application/json", ...token };
  const answer = await fetch(ABIDE_SERVER + path, { method: "POST", headers, body: JSON.stringify(fields), signal });
  if (!answer.ok) throw new Error(`abide serve: ${await answer.text()}`);
  return answer.json();
}

const FAULTS = { ENOTFOUND: "dns", EAI_AGAIN: "dns", ECONNREFUSED: "connect", ECONNRESET: "reset", UND_ERR_SOCKET: "reset",
  UND_ERR_CONNECT_TIMEOUT: "connect", UND_ERR_HEADERS_TIMEOUT: "timeout", UND_ERR_BODY_TIMEOUT: "timeout" };

export function fault(error) {
  const { code = "" } = error.cause ?? error;
  return FAULTS[code] ?? (/CERT|TLS|SSL/.test(code) ? "tls" : /Timeout|Abort/.test(error.name) ? "timeout" : "other");
}

// The body is read to its end, because the delay counts from there.
export async function abideFetch(url, { redirects = 10, signal, headers, ...init } = {}) {
  for (let hop = 0; ; hop++) {
    const granted = await call("/v1/acquire", { url: String(url), ttl_ms: TTL_MS }, signal);
    if (granted.outcome !== "granted") throw new NotGranted(granted);
    let end = { failed: "other" }, response, body;
    try {
      const limit = AbortSignal.any([AbortSignal.timeout(TTL_MS - 10_000), ...(signal ? [signal] : [])]);
      const fields = { "user-agent": USER_AGENT, ...headers };
      response = await fetch(url, { ...init, headers: fields, redirect: "manual", signal: limit });
      body = await response.arrayBuffer();
      end = { status: response.status, headers: [...response.headers] };
    } catch (error) {
      end = { failed: fault(error) };
      throw error;
    } finally {
      await call("/v1/finish", { permit: granted.permit, ...end });
    }
    const location = response.headers.get("location");
    const { status, statusText } = response;
    if (![301, 302, 303, 307, 308].includes(status) || !location || hop === redirects) {
      const page = new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers: response.headers });
      return Object.defineProperty(page, "url", { value: String(url) });
    }
    url = new URL(location, url); // each hop is a URL of its own
  }
}
