// Package abide: http.Client{Transport: &abide.Transport{Server: "http://127.0.0.1:8410"}} asks abide serve.
package abide

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

type Transport struct{ Server, Token string }
// NotGranted by its Outcome: denied or refused: skip the URL; deferred: keep it, and ask again at Retry_at.
type NotGranted struct{ Outcome, Why, Permit, Retry_at, Code string }

func (n *NotGranted) Error() string { return "abide: " + n.Why + n.Code }

func send(req *http.Request) (res *http.Response, body []byte, err error) {
	if res, err = http.DefaultTransport.RoundTrip(req); err == nil {
		defer res.Body.Close()
		if body, err = io.ReadAll(res.Body); err != nil {
			return nil, nil, err
		}
	}
	return res, body, err
}

func (t *Transport) call(ctx context.Context, path string, fields map[string]any) (answer NotGranted, err error) {
	text, _ := json.Marshal(fields)
	req, err := http.NewRequestWithContext(ctx, "POST", t.Server+path, bytes.NewReader(text))
	if err == nil {
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + t.Token}}
		_, text, err = send(req)
		json.Unmarshal(text, &answer) // what is no answer grants nothing
	}
	if err == nil && path == "/v1/acquire" && answer.Outcome != "granted" {
		err = &answer
	}
	return answer, err
}

func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	granted, err := t.call(req.Context(), "/v1/acquire", map[string]any{"url": req.URL.String(), "ttl_ms": 120000})
	if err != nil {
		return nil, err
	}
	end := map[string]any{"permit": granted.Permit, "failed": "other"}
	res, body, err := send(req)
	if err == nil {
		fields := [][2]string{}
		for name, values := range res.Header {
			fields = append(fields, [2]string{name, strings.Join(values, ", ")})
		}
		end = map[string]any{"permit": granted.Permit, "status": res.StatusCode, "headers": fields}
		res.Body = io.NopCloser(bytes.NewReader(body))
	}
	t.call(context.Background(), "/v1/finish", end)
	return res, err
}
