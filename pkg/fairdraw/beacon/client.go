package beacon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ErrNotPublished means that no source has published the round yet, and that none failed otherwise.
var ErrNotPublished = errors.New("beacon: the round is not published yet")

const (
	// sourceTimeout is the time limit of one request: the next source is then asked.
	sourceTimeout   = 5 * time.Second
	maxResponseSize = 64 << 10 // bytes of a source's response
)

// Client fetches rounds of one beacon chain from several HTTP servers, its sources. It verifies
// every round, so the sources need not be trusted. It is safe for concurrent use.
type Client struct {
	chain Chain
	urls  []string
	http  *http.Client
}

// NewClient makes a Client of a chain. urls are the base URLs of the sources, such as
// https://api.drand.sh, in the order in which they are asked.
func NewClient(chain Chain, urls []string, client *http.Client) (*Client, error) {
	if err := chain.Validate(); err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, errors.New("beacon: no URL")
	}
	c := &Client{chain: chain, http: client}
	for _, u := range urls {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Host == "" || (parsed.Scheme != "https" && parsed.Scheme != "http") {
			return nil, fmt.Errorf("beacon: %q is not an http(s) URL", u)
		}
		c.urls = append(c.urls, strings.TrimRight(u, "/")+"/"+chain.ChainHash)
	}
	return c, nil
}

// Get returns a verified round from the first source that has it. It skips sources that fail, take
// longer than 5 s, or answer with a round that does not verify. It fails with ErrNotPublished, or
// with the errors of all sources.
func (c *Client) Get(ctx context.Context, round uint64) (Round, error) {
	var failures []error
	for _, base := range c.urls {
		var r Round
		err := c.getJSON(ctx, fmt.Sprintf("%s/public/%d", base, round), &r)
		if err == nil && r.Round != round {
			err = fmt.Errorf("%s answered with round %d instead of %d", base, r.Round, round)
		}
		if err == nil {
			if err = c.chain.Verify(r); err == nil {
				return r, nil
			}
			err = fmt.Errorf("%s: %w", base, err)
		}
		if !errors.Is(err, ErrNotPublished) {
			failures = append(failures, err)
		}
	}
	if len(failures) == 0 {
		return Round{}, ErrNotPublished
	}
	return Round{}, errors.Join(failures...)
}

// Errors of Check.
var (
	// ErrNoSuchChain means that no source knows the chain; no source failed in another way.
	ErrNoSuchChain = errors.New("beacon: no source publishes this chain")
	// ErrStopped means that the chain's latest round is too old or in the future.
	ErrStopped = errors.New("beacon: the latest round is not the one that is due")
)

// maxLate is the tolerance for clocks that differ: the latest round may be at most three periods
// and maxLate old, and at most maxLate in the future.
const maxLate = time.Minute

// Check makes sure that at least one source publishes the chain: its /info describes the chain, and
// its latest round verifies and is current. So a wrong setting or an ended chain is found before a
// draw depends on it. Check fails with ErrNoSuchChain, or with the errors of all sources.
func (c *Client) Check(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	results := make([]error, len(c.urls))
	var work sync.WaitGroup
	for i, base := range c.urls { // concurrently, since an operator waits
		work.Go(func() {
			if results[i] = c.checkSource(ctx, base, now); results[i] == nil {
				cancel() // one source is enough
			}
		})
	}
	work.Wait()
	cancel()
	var failures []error
	for _, err := range results {
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrNotPublished) {
			failures = append(failures, err)
		}
	}
	if len(failures) == 0 {
		return ErrNoSuchChain
	}
	return errors.Join(failures...)
}

func (c *Client) checkSource(ctx context.Context, base string, now time.Time) error {
	var info Info
	if err := c.getJSON(ctx, base+"/info", &info); err != nil {
		return err
	}
	if info.Chain() != c.chain {
		return fmt.Errorf("beacon: %s describes another chain: %+v", base, info.Chain())
	}
	var latest Round
	if err := c.getJSON(ctx, base+"/public/latest", &latest); err != nil {
		return err
	}
	if err := c.chain.Verify(latest); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	age := now.Sub(c.chain.TimeOf(latest.Round))
	if age < -maxLate || age > maxLate+3*time.Duration(c.chain.Period)*time.Second {
		return fmt.Errorf("%s: round %d: %w", base, latest.Round, ErrStopped)
	}
	return nil
}

// Info is the response of a beacon to /info, in drand's JSON form.
type Info struct {
	PublicKey string `json:"public_key"`
	Period    int64  `json:"period"`
	Genesis   int64  `json:"genesis_time"`
	Hash      string `json:"hash"`
	GroupHash string `json:"groupHash"`
	Scheme    string `json:"schemeID"`
	Metadata  struct {
		BeaconID string `json:"beaconID"`
	} `json:"metadata"`
}

func (i Info) Chain() Chain {
	return Chain{
		Scheme: i.Scheme, ChainHash: i.Hash, PublicKey: i.PublicKey, Genesis: i.Genesis, Period: i.Period,
		GroupHash: i.GroupHash, BeaconID: i.Metadata.BeaconID,
	}
}

func (c *Client) getJSON(ctx context.Context, address string, target any) error {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("beacon: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("beacon: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseSize))
	switch {
	case err != nil:
		return fmt.Errorf("beacon: %s: %w", address, err)
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusTooEarly:
		return fmt.Errorf("%s: %w", address, ErrNotPublished)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("beacon: %s: %s", address, response.Status)
	}
	if err := json.Unmarshal(body, target); err != nil {
		return fmt.Errorf("beacon: %s: %w", address, err)
	}
	return nil
}
