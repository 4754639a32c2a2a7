package chaos_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/ids"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
)

// floodSize is the size of a sale and of the flood beside it.
type floodSize struct {
	sale      size
	callers   int
	perSecond int
}

var (
	// Each caller sends 10 requests per second, as many as a visitor may.
	longFlood  = floodSize{sale: longSale, callers: 500, perSecond: 5000}
	shortFlood = floodSize{sale: shortSale, callers: 20, perSecond: 200}
)

const floodRoom = "flooded"

// TestFloodOfMadeUpIDs runs a sale while visitors of another room poll their places, and another
// sale while they poll places in rooms of events that do not exist. Made-up ids cause no call of
// DynamoDB. In the full form the second sale admits at least 0.9 times as many visitors per second.
func TestFloodOfMadeUpIDs(t *testing.T) {
	parallelIfShort(t)
	seed, _ := seededRandom(t)
	size := shortFlood
	if *full {
		size = longFlood
	}
	r := setup(t, size.sale, seed, func(o *harness.Options) { o.AWS = true })
	callers := r.floodCallers(size.callers)
	knownRate, knownReads := r.sellBeside(0, callers, size.perSecond, func(c *floodCaller) string { return floodRoom + "/" + c.RequestID })
	madeUpRate, madeUpReads := r.sellBeside(1, callers, size.perSecond, func(*floodCaller) string { return "no-" + ids.NewV7().String() + "/" + ids.NewV7().String() })
	t.Logf("%d calls a second beside a sale: known ids: %.1f visitors/s, %.1f reads/s of DynamoDB; made-up ids: %.1f visitors/s, %.1f reads/s",
		size.perSecond, knownRate, knownReads, madeUpRate, madeUpReads)
	require.Less(t, madeUpReads, 1.5*knownReads+0.3*float64(size.perSecond), "reads a second: made-up ids must cost none")
	if *full {
		require.GreaterOrEqual(t, madeUpRate, 0.9*knownRate, "visitors who are let in a second")
	}
}

// floodCaller is a visitor who waits in floodRoom and polls places.
type floodCaller struct {
	*harness.Client

	RequestID string `json:"requestId"`
	Ticket    string `json:"ticket"`
}

// floodCallers returns visitors with a place in floodRoom, which admits hardly anybody.
func (r *run) floodCallers(n int) []*floodCaller {
	r.t.Helper()
	ctx := r.t.Context()
	require.NoError(r.t, r.open(&sale{Sale: crowd.Sale{EventID: floodRoom, Seats: 10, Threshold: 1, Rate: 1, Hold: 30, Slot: 30}}))
	r.Operator().MustCall(ctx, http.MethodPost, "/api/v1/admin/vwr/activate/"+floodRoom, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
	all := make([]*floodCaller, n)
	for i := range all {
		c := &floodCaller{Client: r.Visitor()}
		answer, err := harness.RepeatWhileOverloaded(ctx, r.t, func() (*harness.Answer, error) { return c.Assign(ctx, floodRoom) })
		require.NoError(r.t, err)
		require.NoError(r.t, answer.Decode(c))
		require.NotEmpty(r.t, c.Ticket, "%d: %s", answer.Status, answer.Body)
		all[i] = c
	}
	return all
}

// sellBeside runs a sale while the callers poll the places that `place` returns. It returns the
// visitors that the sale admitted per second, and the reads of DynamoDB per second.
func (r *run) sellBeside(number int, callers []*floodCaller, perSecond int, place func(*floodCaller) string) (admitted, reads float64) {
	r.t.Helper()
	var read, calls, refused atomic.Int64
	r.DynamoDB().Use(func(c awsproxy.Call) awsproxy.Fault {
		if c.Name == "BatchGetItem" || c.Name == "GetItem" || c.Name == "Query" {
			read.Add(1)
		}
		return awsproxy.Fault{}
	})
	ctx, stop := context.WithCancel(r.t.Context())
	var flood sync.WaitGroup
	pause := time.Second * time.Duration(len(callers)) / time.Duration(perSecond)
	for i, c := range callers {
		flood.Go(func() {
			time.Sleep(pause * time.Duration(i) / time.Duration(len(callers)))
			for tick := time.NewTicker(pause); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				answer, err := c.With("X-Vwr-Ticket", c.Ticket).Call(ctx, http.MethodGet, "/vwr-api/vwr/check/"+place(c), nil)
				if calls.Add(1); err != nil || answer.Status >= http.StatusInternalServerError || answer.Status == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}
		})
	}
	began := time.Now()
	err := r.play(number)
	took := time.Since(began)
	stop()
	flood.Wait()
	r.DynamoDB().Use(nil)
	require.NoError(r.t, err)
	r.t.Logf("sale %d: %v, %.0f calls a second beside it, %d of %d refused", number, took.Round(time.Millisecond), float64(calls.Load())/took.Seconds(),
		refused.Load(), calls.Load())
	require.Less(r.t, refused.Load(), calls.Load()/20+1, "the flood is refused: it would prove nothing")
	return float64(r.size.visitors) / took.Seconds(), float64(read.Load()) / took.Seconds()
}
