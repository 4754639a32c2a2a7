package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// demoEvent is the sale that a fresh run contains.
const demoEvent = "demo"

// Seed creates the demo sale once, by the API of the gateway at the URL, which must have DEV_LOGIN;
// tickets sold in it are kept.
func Seed(ctx context.Context, url string, say func(format string, args ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	gateway := api(strings.TrimRight(url, "/"))
	err := gateway.call(ctx, http.MethodGet, "/api/v1/events/"+demoEvent, "", nil, nil)
	if err == nil {
		return nil
	}
	var refused statusError
	if !errors.As(err, &refused) || refused.code != http.StatusNotFound {
		return err
	}
	var login struct {
		Token string `json:"token"`
	}
	operator := map[string]any{"userId": "operator", "roles": []string{"admin"}}
	if err := gateway.call(ctx, http.MethodPost, "/api/v1/auth/dev-login", "", operator, &login); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Hour)
	sale := map[string]any{
		"title": "URR demo night", "artist": "The Placeholders", "venue": "Seoul Hall",
		"startsAt":     now.AddDate(0, 1, 0).Format(time.RFC3339),
		"salesOpenAt":  now.Add(-time.Hour).Format(time.RFC3339),
		"salesCloseAt": now.AddDate(0, 1, 0).Add(-time.Hour).Format(time.RFC3339),
		"seating":      "ASSIGNED", "currency": "KRW", "maxPerUser": 4, "threshold": 100,
		"sections": []map[string]any{
			{"section": "A", "price": 165000, "rows": 10, "seatsPerRow": 20},
			{"section": "B", "price": 110000, "rows": 10, "seatsPerRow": 20},
			{"section": "C", "price": 55000, "rows": 10, "seatsPerRow": 20},
		},
	}
	if err := gateway.call(ctx, http.MethodPut, "/api/v1/admin/events/"+demoEvent, login.Token, sale, nil); err != nil {
		return err
	}
	say("%-16s seeded: 600 seats", "demo sale")
	return nil
}

// statusError is a gateway response other than 2xx.
type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return e.text }

// api is a gateway's base URL without a trailing slash.
type api string

func (a api) call(ctx context.Context, method, path, token string, body, into any) error {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, string(a)+path, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return statusError{resp.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, raw)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
