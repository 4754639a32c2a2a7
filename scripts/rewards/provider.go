package rewards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"urr.guru/services/reward/sandbox"
)

// provider is the sandbox that pays points and coupons.
type provider struct{ url string }

func (p provider) faults(ctx context.Context) (f sandbox.Faults, err error) {
	err = p.call(ctx, http.MethodGet, "/v1/faults", nil, &f)
	return f, err
}

func (p provider) setFaults(ctx context.Context, f sandbox.Faults) error {
	return p.call(ctx, http.MethodPut, "/v1/faults", f, nil)
}

// pay pays without the platform.
func (p provider) pay(ctx context.Context, o sandbox.Order) error {
	return p.call(ctx, http.MethodPost, "/v1/payouts", o, nil)
}

func (p provider) call(ctx context.Context, method, path string, body, into any) error {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("the provider's sandbox: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, payload)
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
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
