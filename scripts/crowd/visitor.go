package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/platform"
)

// How visits can end without an error.
const (
	endTicket  = "ticket"
	endSoldOut = "sold_out"
	endLeft    = "left"
	endForger  = "forger_gave_up"
)

// errSoldOut ends a visit because every seat is sold. While some are only held, visitors stay.
var errSoldOut = errors.New("sold out")

// errSlotEnded means that the visitor's slot has ended, so the visitor waits in the line again.
var errSlotEnded = errors.New("slot ended")

// visitor is one simulated person with one browser. Only one goroutine uses it; the second request
// of a visitor who clicks twice is sent by another, from a Fork of its session.
type visitor struct {
	crowd     *Crowd
	behaviour Behaviour
	rng       *rand.Rand
	userID    string
	roles     []string
	session   *Session
	entitled  bool // may buy in the presale

	queueTicket string
	lastBeat    time.Time
	away        bool // the visitor has paused once (ComesBack)
	impatient   bool // asks for a position before the turn
	turn        time.Time
	paid        bool // a payment was confirmed
	tickets     []ticket
}

// visit runs the whole visit and returns how it ended, for Endings.
func (v *visitor) visit(ctx context.Context) string {
	if _, err := v.saleStatus(ctx); err != nil {
		return "error: " + err.Error()
	}
	if v.behaviour == Forges {
		v.tryForgeries(ctx)
		return endForger
	}
	if v.behaviour == Hoards {
		return outcomeOfError(v.hoard(ctx))
	}
	if err := v.passRoom(ctx); err != nil {
		return outcomeOfError(err)
	}
	if err := v.login(ctx); err != nil {
		return outcomeOfError(err)
	}
	for {
		err := v.waitInLine(ctx)
		if err == nil {
			err = v.buyTicket(ctx)
		}
		if !errors.Is(err, errSlotEnded) {
			return outcomeOfError(err)
		}
	}
}

func (v *visitor) login(ctx context.Context) error {
	body := map[string]any{"userId": v.userID}
	if len(v.roles) > 0 {
		body["roles"] = v.roles
	}
	ans, err := v.callWithRetries(ctx, StepLogin, http.MethodPost, loginPath, body, nil)
	if err != nil {
		return err
	}
	return v.session.signIn(v.userID, ans)
}

// errLeft ends the visit of a visitor whose behaviour is to leave.
var errLeft = errors.New("left")

func outcomeOfError(err error) string {
	switch {
	case err == nil:
		return endTicket
	case errors.Is(err, errSoldOut):
		return endSoldOut
	case errors.Is(err, errLeft):
		return endLeft
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cut off"
	default:
		return "error: " + err.Error()
	}
}

// saleStatus loads the event's page and returns the status of the sale.
func (v *visitor) saleStatus(ctx context.Context) (string, error) {
	var event struct {
		Status string `json:"status"`
	}
	err := v.get(ctx, StepEvent, "/api/v1/events/"+v.crowd.sale.EventID, &event)
	return event.Status, err
}

// allSold reports whether every seat is sold. The public figures may be old: if buyers may give
// tickets back, the status of the sale must be SOLD_OUT too.
func (v *visitor) allSold(ctx context.Context) (bool, error) {
	if v.crowd.soldOut.Load() {
		return true, nil
	}
	var figures struct {
		SeatsSold int `json:"seatsSold"`
	}
	if err := v.get(ctx, StepFigures, "/api/v1/stats/events/"+v.crowd.sale.EventID, &figures); err != nil {
		return false, err
	}
	if figures.SeatsSold < v.crowd.sale.Seats {
		return false, nil
	}
	if after := v.crowd.after; after != nil {
		readAt := time.Now()
		status, err := v.saleStatus(ctx)
		if err != nil || status != "SOLD_OUT" || !after.soldOutForGood(readAt) {
			return false, err
		}
	}
	v.crowd.soldOut.Store(true)
	return true, nil
}

// get requests JSON and decodes it. If a service is busy, it tries again, as a page does.
func (v *visitor) get(ctx context.Context, step Step, path string, out any) error {
	ans, err := v.callWithRetries(ctx, step, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	return decode(step, ans, out)
}

// decode decodes the body of a 2xx response; any other status is an error.
func decode(step Step, ans *Answer, out any) error {
	if !ans.OK() {
		return newRefusalError(step, ans)
	}
	return json.Unmarshal(ans.Body, out)
}

// maxAttempts is the most attempts of a request that gets no response or should be repeated.
const maxAttempts = 20

// callWithRetries repeats a request after a lost connection, a 429 or a 5xx, and while the same
// request is in progress; after a 429, not before the advised delay. It returns any other response.
func (v *visitor) callWithRetries(ctx context.Context, step Step, method, path string, body any, header map[string]string) (*Answer, error) {
	var last error
	for i := range maxAttempts {
		ans, err := v.session.Call(ctx, step, method, path, body, header)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wait := min(time.Duration(i+1)*500*time.Millisecond, 5*time.Second)
		switch {
		case err != nil:
			last = err
		case ans.Status == http.StatusTooManyRequests && ans.Problem().Code == platform.AskLater:
			return ans, nil
		case ans.Status == http.StatusTooManyRequests:
			last = newRefusalError(step, ans)
			wait = max(wait, retryAfter(ans))
		case ans.Status >= 500, ans.Problem().Code == "IDEMPOTENCY_IN_PROGRESS": // the service still processes an earlier send of this request
			last = newRefusalError(step, ans)
		default:
			return ans, nil
		}
		if !loop.Sleep(ctx, jitter(v.rng, wait)) {
			return nil, ctx.Err()
		}
	}
	return nil, last
}

// refusalError is the error of a response with an unexpected status.
type refusalError struct {
	step   Step
	status int
	code   string
}

func (e *refusalError) Error() string {
	return string(e.step) + ": " + http.StatusText(e.status) + " " + e.code
}

func newRefusalError(step Step, a *Answer) error {
	return &refusalError{step: step, status: a.Status, code: a.Problem().Code}
}

// Behaviour is what a visitor does in addition to buying, or instead of it.
type Behaviour string

// The behaviours of visitors.
const (
	Buys         Behaviour = "buys"
	LeavesRoom   Behaviour = "leaves_tier1"  // closes the page in the waiting room
	LeavesLine   Behaviour = "leaves_line"   // closes the page in the line
	LeavesInside Behaviour = "leaves_inside" // is admitted and leaves the shop
	DropsHold    Behaviour = "drops_hold"    // holds seats and abandons them
	ComesBack    Behaviour = "comes_back"    // pauses for a while, then resumes
	SharesPass   Behaviour = "shares_pass"   // gives the tier-1 pass to a friend
	Forges       Behaviour = "forges"        // tries forged and stolen passes
	Hoards       Behaviour = "hoards"        // joins with the passes of many browsers
	ClicksTwice  Behaviour = "clicks_twice"  // sends reserve and confirm twice concurrently
	IsDeclined   Behaviour = "is_declined"   // the first card is declined, the second works
)

// shares has the percentage of visitors with each behaviour; the rest have the behaviour Buys.
var shares = []struct {
	behaviour Behaviour
	percent   int
}{
	{LeavesRoom, 3}, {LeavesLine, 3}, {LeavesInside, 2}, {DropsHold, 2}, {ComesBack, 5},
	{SharesPass, 3}, {Forges, 3}, {Hoards, 1}, {ClicksTwice, 5}, {IsDeclined, 3},
}

// Behaviours returns the behaviours of n visitors in random order; each has its exact share.
func Behaviours(n int, rng *rand.Rand) []Behaviour {
	out := make([]Behaviour, 0, n)
	for _, s := range shares {
		for range n * s.percent / 100 {
			out = append(out, s.behaviour)
		}
	}
	for len(out) < n {
		out = append(out, Buys)
	}
	rng.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Durations of the parts of a visit.
const (
	thinkSeats      = 1500 * time.Millisecond // looking at the map before choosing
	thinkPayment    = 1000 * time.Millisecond // at the checkout
	mapRetryDelay   = 2 * time.Second         // between two loads of a map without free seats
	takenRetryDelay = 300 * time.Millisecond  // after another visitor has taken a seat
	awayAtLeast     = 18 * time.Second        // so long that the visitor no longer counts as present
	awaySpread      = 8 * time.Second
	paymentPoll     = 1 * time.Second
	heartbeat       = 10 * time.Second // the interval of the seat page
)

// jitter varies a duration by ±30 %.
func jitter(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.7 + 0.6*rng.Float64()))
}

// paymentKey returns a payment key, by which the sandbox provider chooses how a charge ends: most
// succeed at once, some only later, by a webhook.
func paymentKey(rng *rand.Rand, id string) string {
	if rng.IntN(100) < 4 {
		return "late-" + id
	}
	return "ok-" + id
}
