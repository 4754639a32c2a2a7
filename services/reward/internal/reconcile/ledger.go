package reconcile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"urr.guru/services/reward/internal/payout"
)

// LedgerEntry is a payout in a provider's ledger: one line of JSON.
type LedgerEntry struct {
	// Key is the idempotency key that was sent.
	Key      string `json:"key"`
	MemberID string `json:"memberId"`
	// Kind may be absent if only one kind is compared.
	Kind  payout.Kind `json:"kind"`
	Value int64       `json:"value"`
	// TransactionID is the id that the provider gave to the payout.
	TransactionID string `json:"transactionId"`
}

// maxLine is the longest line of a ledger, in bytes.
const maxLine = 64 << 10

// Read reads a ledger of one JSON object per line, in any order. It stops at the first line that is
// not an entry: a part of a ledger proves nothing.
func Read(r io.Reader) iter.Seq2[LedgerEntry, error] {
	return func(yield func(LedgerEntry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			e, err := parseEntry(lines.Bytes())
			if err != nil {
				yield(LedgerEntry{}, fmt.Errorf("ledger, line %d: %w", n, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(LedgerEntry{}, fmt.Errorf("ledger, after line %d: %w", n, err))
		}
	}
}

func parseEntry(line []byte) (LedgerEntry, error) {
	var e LedgerEntry
	if err := json.Unmarshal(line, &e); err != nil {
		return LedgerEntry{}, err
	}
	switch {
	case e.Key == "" || e.MemberID == "" || e.TransactionID == "":
		return LedgerEntry{}, errors.New("key, memberId and transactionId are required")
	case e.Kind != "" && e.Kind != payout.Point && e.Kind != payout.Coupon:
		return LedgerEntry{}, fmt.Errorf("kind %q: must be POINT, COUPON or absent", e.Kind)
	default:
		return e, nil
	}
}

// The longest times to wait for the server of a ledger: for its headers, and for its next bytes.
const (
	headerTimeout = 30 * time.Second
	stallTimeout  = time.Minute
)

// Open opens a ledger: a file, "-" for stdin, or a URL.
func Open(ctx context.Context, source string) (io.ReadCloser, error) {
	switch {
	case source == "-":
		return io.NopCloser(os.Stdin), nil
	case strings.HasPrefix(source, "http://"), strings.HasPrefix(source, "https://"):
		return requestLedger(ctx, source)
	default:
		file, err := os.Open(source)
		if err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		return file, nil
	}
}

// requestLedger requests a ledger by HTTP. Reading its body has no time limit, since a ledger may
// be long and is read as fast as the database answers; but each read ends after stallTimeout
// without bytes.
func requestLedger(ctx context.Context, url string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("ledger: %w", err)
	}
	transport := &http.Transport{ResponseHeaderTimeout: headerTimeout, Proxy: http.ProxyFromEnvironment}
	resp, err := (&http.Client{Transport: transport}).Do(req) //nolint:bodyclose // closed by body
	if err != nil {
		cancel()
		return nil, fmt.Errorf("ledger: %w", err)
	}
	body := &ledgerBody{ReadCloser: resp.Body, cancel: func() { cancel(); transport.CloseIdleConnections() }}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("ledger: GET %s: status %d", url, resp.StatusCode), body.Close())
	}
	return body, nil
}

// ledgerBody is the body of a response. A read of it fails after stallTimeout without bytes.
type ledgerBody struct {
	io.ReadCloser

	cancel func()
}

func (b *ledgerBody) Read(p []byte) (int, error) {
	stalled := time.AfterFunc(stallTimeout, b.cancel)
	defer stalled.Stop()
	return b.ReadCloser.Read(p)
}

func (b *ledgerBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
