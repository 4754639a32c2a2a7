package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Client calls the HTTP API of a running sandbox, for tests and demos.
type Client struct{ URL string }

// Faults returns the faults that the sandbox injects at present.
func (c Client) Faults(ctx context.Context) (f Faults, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/faults", nil, &f)
	return f, err
}

// SetFaults replaces the faults that the sandbox injects.
func (c Client) SetFaults(ctx context.Context, f Faults) error {
	return c.call(ctx, http.MethodPut, "/v1/faults", f, nil)
}

// Pay has the sandbox pay an order directly, without the platform.
func (c Client) Pay(ctx context.Context, o Order) error {
	return c.call(ctx, http.MethodPost, "/v1/payouts", o, nil)
}

func (c Client) call(ctx context.Context, method, path string, body, result any) error {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("the provider's sandbox: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, payload)
	if err != nil {
		return fmt.Errorf("the provider's sandbox: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the provider's sandbox: %w; is the platform up (make up)?", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the provider's sandbox: %s %s: %s", method, path, resp.Status)
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(result)
}
