package fakes

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"urr.guru/pkg/faults"
)

// Webhook is a webhook with its headers, ready to be sent.
type Webhook struct {
	Header map[string]string
	Body   []byte
}

// Webhooks is a provider's queue of webhooks. They stay until Take returns them or Run sends them.
type Webhooks struct {
	now   func() time.Time
	sign  func(body []byte, at time.Time) map[string]string
	calls *Calls // has the faults of the webhooks

	mu    sync.Mutex
	n     int
	queue []waiting
}

// waiting is a webhook in the queue.
type waiting struct {
	at     time.Time
	body   []byte
	forged bool
	tries  int
}

// NewWebhooks makes an empty queue. sign returns the headers of a webhook sent at the time at.
func NewWebhooks(calls *Calls, sign func(body []byte, at time.Time) map[string]string) *Webhooks {
	return &Webhooks{now: calls.opts.Now, sign: sign, calls: calls}
}

const (
	missing  Fault = "missing"
	repeated Fault = "repeated"
	delayed  Fault = "delayed"
	forged   Fault = "forged"
)

func (f *Faults) webhookShares() []faults.FaultShare[Fault] {
	return []faults.FaultShare[Fault]{
		{Size: f.Missing, Fault: missing}, {Size: f.Repeated, Fault: repeated}, {Size: f.Delayed, Fault: delayed}, {Size: f.Forged, Fault: forged},
	}
}

// Send queues a webhook, unless the faults make it missing.
func (w *Webhooks) Send(body []byte) {
	f := w.calls.currentFaults()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	first := waiting{at: w.now(), body: body}
	switch faults.Pick(f.webhookShares(), faults.Chance(f.Seed, "webhook", w.n)) {
	case missing:
		return
	case repeated:
		w.queue = append(w.queue, first)
	case delayed:
		first.at = first.at.Add(time.Duration(f.LateFor))
	case forged:
		w.queue = append(w.queue, waiting{at: first.at, body: body, forged: true})
	default:
	}
	w.queue = append(w.queue, first)
}

// Take removes the webhooks that are due from the queue and returns them, signed now.
func (w *Webhooks) Take() (list []Webhook) {
	for _, x := range w.due() {
		list = append(list, w.signed(x))
	}
	return list
}

func (w *Webhooks) due() (due []waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(x waiting) bool {
		isDue := !w.now().Before(x.at)
		if isDue {
			due = append(due, x)
		}
		return isDue
	})
	return due
}

func (w *Webhooks) signed(x waiting) Webhook {
	signed := x.body
	if x.forged {
		signed = append([]byte("another "), x.body...)
	}
	return Webhook{Header: w.sign(signed, w.now()), Body: x.body}
}

const (
	sendEvery = 50 * time.Millisecond
	maxTries  = 5
)

// Run sends webhooks to an address and calls Arrive, until ctx ends. A webhook that is not accepted
// is sent again, up to five times in all.
func (w *Webhooks) Run(ctx context.Context, url string, client *http.Client) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	var work sync.WaitGroup
	defer work.Wait()
	for ctx.Err() == nil {
		w.calls.Arrive()
		for _, x := range w.due() {
			work.Go(func() {
				if x.tries++; post(ctx, client, url, w.signed(x)) != nil && x.tries < maxTries {
					w.mu.Lock()
					defer w.mu.Unlock()
					x.at = w.now().Add(time.Second << x.tries)
					w.queue = append(w.queue, x)
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func post(ctx context.Context, client *http.Client, url string, x Webhook) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(x.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range x.Header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("webhook answered %s", resp.Status)
	}
	return nil
}
