package sandbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// SignatureHeader contains a signature: `t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">`.
const SignatureHeader = "x-sandbox-signature"

// Sign returns the value of SignatureHeader for a body that is sent at the time at.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Notice is a webhook's body.
type Notice struct {
	ID       string `json:"id"`
	Type     string `json:"type"` // such as charge.captured or session.completed
	OrderID  string `json:"orderId"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// webhooks sends notices, each on its own. After five failed attempts it drops a notice.
type webhooks struct {
	url    string
	secret []byte
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	// retry has the waits before the second and each later attempt.
	retry []time.Duration
}

func newWebhooks(opts Options, now func() time.Time, log *slog.Logger) *webhooks {
	client := opts.Client
	if client == nil {
		client = &http.Client{Timeout: 5 * time.Second}
	}
	return &webhooks{
		url: opts.WebhookURL, secret: []byte(opts.WebhookSecret), client: client, now: now, log: log,
		retry: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second},
	}
}

// send reports the final status of a charge. A voided charge is reported as declined.
func (w *webhooks) send(ctx context.Context, c Charge) {
	kind := "charge.declined"
	if c.Status == Captured {
		kind = "charge.captured"
	}
	w.deliver(ctx, kind, c)
}

// deliver sends a notice about a charge until the receiver accepts it, five times at most.
func (w *webhooks) deliver(ctx context.Context, kind string, c Charge) {
	if w.url == "" {
		return
	}
	n := Notice{ID: uuid.NewString(), Type: kind, OrderID: c.OrderID, Amount: c.Amount, Currency: c.Currency}
	body, err := json.Marshal(n)
	if err != nil {
		w.log.ErrorContext(ctx, "encode webhook", "error", err)
		return
	}
	for attempt := 0; ; attempt++ {
		err := w.post(ctx, body)
		if err == nil {
			return
		}
		if attempt == len(w.retry) {
			w.log.WarnContext(ctx, "webhook given up", "order_id", c.OrderID, "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.retry[attempt]):
		}
	}
}

func (w *webhooks) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(SignatureHeader, Sign(w.secret, w.now(), body))
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("webhook answered %s", resp.Status)
	}
	return nil
}
