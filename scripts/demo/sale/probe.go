package sale

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"urr.guru/pkg/loop"
)

// prober requests one page at a steady rate, each time on a new connection. It detects moments in
// which new visitors would be refused: the crowd would not, since its requests are few, and most
// use existing connections.
type prober struct {
	url    string
	client *http.Client

	mu     sync.Mutex
	asked  int
	failed int
	last   string
}

func newProber(url string) *prober {
	return &prober{url: url, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
}

// run sends perSecond requests per second until ctx ends, and waits for the last responses.
func (p *prober) run(ctx context.Context, perSecond int) {
	if perSecond == 0 {
		return
	}
	var under sync.WaitGroup
	defer under.Wait()
	_ = loop.Every(ctx, time.Second/time.Duration(perSecond), func(ctx context.Context) { // ends with ctx
		under.Go(func() { p.note(p.ask(context.WithoutCancel(ctx))) })
	})
}

func (p *prober) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 == 5 {
		return fmt.Errorf("GET %s: %s", p.url, resp.Status)
	}
	return nil
}

func (p *prober) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err != nil {
		p.failed++
		p.last = err.Error()
	}
}

// verdict prints the result; a failed request is an error.
func (p *prober) verdict() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked > 0 {
		fmt.Printf("%d probes, each on a new connection, %d failed\n", p.asked, p.failed)
	}
	if p.failed > 0 {
		return fmt.Errorf("%d probes failed, as: %s", p.failed, p.last)
	}
	return nil
}
