package crowd

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

// Crowd simulates the visitors of one sale.
type Crowd struct {
	sale     Sale
	api      *API
	visitors int
	// arrive is the period in which the visitors arrive.
	arrive     time.Duration
	seed       uint64
	behaviours []Behaviour
	rng        *rand.Rand    // for choices that concern the crowd as a whole
	entitled   []int         // numbers of the visitors who may buy in the presale
	presale    time.Duration // how long the presale lasts
	cards      int           // the maximum number of valid cards that a visitor tries
	after      *afterSale    // nil: buyers keep their tickets
	door       func(context.Context) error

	soldOut      atomic.Bool
	stolenPasses stolenPasses
	tally        Tally
}

// Options configure the visitors of a run.
type Options struct {
	Visitors int
	Arrive   time.Duration
	// Seed initializes the random choice of behaviours and delays, so that a run can be repeated.
	Seed uint64
	// Behaviours has the behaviour of each visitor. If nil, New chooses them at random.
	Behaviours []Behaviour
	// MaxPaymentAttempts is the maximum number of valid cards that a visitor tries; 0 means 1. It is
	// for runs in which outages make charges fail.
	MaxPaymentAttempts int
	// AfterSale makes buyers use their tickets; if nil, they only keep them.
	AfterSale *AfterSale
	// Door starts the round of the waiting room for which half of the visitors wait (Sale.OpenDoor). If
	// nil, the room has been open for long.
	Door func(context.Context) error
}

// New prepares the visitors of a sale, which must be open before Run.
func New(sale Sale, api *API, o Options) *Crowd {
	c := &Crowd{
		sale: sale, api: api, visitors: o.Visitors, arrive: o.Arrive, seed: o.Seed, behaviours: o.Behaviours, rng: rand.New(rand.NewPCG(o.Seed, 1)),
		cards: max(1, o.MaxPaymentAttempts), door: o.Door,
	}
	if c.behaviours == nil {
		c.behaviours = Behaviours(c.visitors, c.rng)
	}
	if o.AfterSale != nil {
		c.after = newAfterSale(c, *o.AfterSale)
	}
	return c
}

// Tally counts what visitors do and see, during a run.
type Tally struct {
	Arrived atomic.Int64
	// ForgedTried counts the attempts with forged passes, and ForgedIn those that were accepted.
	ForgedTried, ForgedIn atomic.Int64
	// Proofs counts the proofs of work that visitors have done to get a position of tier 1.
	Proofs atomic.Int64
	// Rejoined counts the slots that hoarders got after their first, by joining with another pass.
	Rejoined atomic.Int64
	// Paid counts visitors whose payment was confirmed, and Ticketed those who saw their tickets.
	Paid, Ticketed atomic.Int64
	// Early counts the requests for a position before the visitor's turn.
	Early atomic.Int64

	Endings
	doorTally
	transferTally

	mu            sync.Mutex
	openingFaults []string

	forged  []string          // forgeries that were accepted
	holders map[string]string // by seat: the user who holds its ticket
	twice   []string          // seats of which two visitors hold a ticket
}

func (t *Tally) addForgedIn(forgery string) {
	t.ForgedIn.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forged = append(t.forged, forgery)
}

// addTicket records that a visitor holds a ticket for a seat.
func (t *Tally) addTicket(seat, user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders == nil {
		t.holders = map[string]string{}
	}
	if holder, taken := t.holders[seat]; taken && holder != user {
		t.twice = append(t.twice, fmt.Sprintf("%s (%s and %s)", seat, holder, user))
	}
	t.holders[seat] = user
}

// dropTicket records that a visitor has given a ticket back, so another visitor may get the seat.
func (t *Tally) dropTicket(seat, user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders[seat] == user {
		delete(t.holders, seat)
	}
}

func (t *Tally) DuplicateSeats() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.twice...)
}

// Violations describes, in a sentence each, what visitors saw that must not happen.
func (t *Tally) Violations() []string {
	var out []string
	for _, forgery := range t.ForgedPasses() {
		out = append(out, "a forged pass let somebody in: "+forgery)
	}
	for _, seat := range t.DuplicateSeats() {
		out = append(out, "two hold a ticket of one seat: "+seat)
	}
	if n := t.Paid.Load() - t.Ticketed.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d paid and did not see a ticket", n))
	}
	for _, id := range t.AdmittedAfterRefund() {
		out = append(out, "a door let in a refunded ticket: "+id)
	}
	t.mu.Lock()
	out = append(out, t.openingFaults...)
	t.mu.Unlock()
	return append(out, t.WrongAnswers()...)
}

func (t *Tally) ForgedPasses() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.forged...)
}

func (c *Crowd) Tally() *Tally { return &c.tally }

// Run runs all visits. It returns when the last visitor has left or ctx ends.
func (c *Crowd) Run(ctx context.Context) {
	arrivals := c.arrivals()
	var wg sync.WaitGroup
	start, opened := time.Now(), make(chan struct{})
	if c.door != nil {
		wg.Go(func() { c.openDoor(ctx, opened) })
	}
	for i, behaviour := range c.behaviours {
		v := &visitor{
			crowd: c, behaviour: behaviour, rng: c.visitorRand(i), userID: c.userID(i), session: c.api.NewSession(), entitled: slices.Contains(c.entitled, i),
			impatient: i/2%impatienceth == 0, // as many before the door as after it
		}
		wg.Go(func() {
			if !loop.Sleep(ctx, time.Until(start.Add(arrivals[i]))) {
				return
			}
			c.tally.Arrived.Add(1)
			if c.door != nil && arrivals[i] < doorAfter {
				v.waitAtTheDoor(ctx, opened)
			}
			c.tally.End(v.visit(ctx))
		})
	}
	wg.Wait()
}

// userID returns the user id of visitor number i.
func (c *Crowd) userID(i int) string { return fmt.Sprintf("%s-%05d", c.behaviours[i], i) }

// visitorRand returns the source of the random choices of visitor number i.
func (c *Crowd) visitorRand(i int) *rand.Rand { return rand.New(rand.NewPCG(c.seed, uint64(i)+2)) }

// arrivals returns when each visitor arrives. Those who may buy in the presale are among the crowd of
// the opening, and come early enough to buy.
func (c *Crowd) arrivals() []time.Duration {
	out := spreadArrivals(c.visitors, c.arrive, c.rng)
	if c.door != nil {
		c.beforeTheDoor(out)
	}
	latest := min(openingShare*float64(c.arrive), float64(c.presale)/4)
	for _, i := range c.entitled {
		out[i] = time.Duration(c.rng.Float64() * latest)
	}
	return out
}

// openingShare is the first part of the arrivals' period, in which half of the visitors come.
const openingShare = 0.2

// spreadArrivals returns when each of n visitors arrives: half of them in the first fifth of the
// period, as at the opening of a sale.
func spreadArrivals(n int, period time.Duration, rng *rand.Rand) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		fraction := rng.Float64()
		if i%2 == 0 {
			fraction *= openingShare
		}
		out[i] = time.Duration(fraction * float64(period))
	}
	return out
}

// Endings counts how visits end. The zero value is ready for use.
type Endings struct {
	// Gone is the number of visits that have ended.
	Gone atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int
}

func (e *Endings) End(outcome string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcomes == nil {
		e.outcomes = map[string]int{}
	}
	e.outcomes[outcome]++
	e.Gone.Add(1)
}

func (e *Endings) Outcomes() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.outcomes)
}

// Sale describes the sale that the crowd visits.
type Sale struct {
	EventID string
	Seats   int
	// Threshold is the maximum number of visitors in the shop.
	Threshold int
	// Rate is how many positions of tier 1 are served per second.
	Rate int
	// Proof is the difficulty of the proof of work for a position of tier 1, in bits; 0: none.
	Proof int
	// Hold and Slot are the durations of holds and slots, in seconds. They are short, so that
	// abandoned seats are free again while the crowd is there.
	Hold, Slot int
	// Presale is the presale before the general sale; if nil, everybody may buy from the start.
	Presale *Presale
}

// seatsPerRow is the number of seats in each full row.
const seatsPerRow = 20

// Open signs an operator in by the development login, creates the sale, and activates its waiting
// room.
func (s Sale) Open(ctx context.Context, api *API, operator string) error {
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	if err := s.create(ctx, admin); err != nil {
		return fmt.Errorf("open the sale: %w", err)
	}
	return nil
}

func (s Sale) create(ctx context.Context, admin *Session) error {
	now := time.Now().UTC().Truncate(time.Second)
	opens, presale := now.Add(-time.Minute), map[string]any(nil)
	if s.Presale != nil {
		opens, presale = now.Add(s.Presale.Lasts), s.Presale.spec(now)
	}
	err := s.putEvent(ctx, admin, now.AddDate(0, 0, 30), opens, now.Add(24*time.Hour), presale)
	if err == nil && s.Presale != nil {
		err = s.uploadList(ctx, admin)
	}
	if err == nil {
		err = callAsOperator(ctx, admin, http.MethodPost, "/api/v1/admin/vwr/activate/"+s.EventID, s.room())
	}
	return err
}

// room returns the settings of the sale's waiting room.
func (s Sale) room() map[string]any {
	return map[string]any{"batch": s.Rate, "intervalSeconds": 1, "proofOfWork": s.Proof}
}

// Close ends the sale and its waiting room at once, after an interrupted run.
func (s Sale) Close(ctx context.Context, api *API, operator string) error {
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	var event struct {
		StartsAt time.Time `json:"startsAt"`
	}
	ans, err := admin.callRepeatedly(ctx, StepEvent, http.MethodGet, "/api/v1/events/"+s.EventID, nil)
	if err == nil {
		err = decode(StepEvent, ans, &event)
	}
	if err == nil { // the start of an event with sold tickets cannot be changed
		now, presale := time.Now().UTC().Truncate(time.Second), map[string]any(nil)
		if s.Presale != nil { // remove the presale, whose times would be after the new end of the sale
			presale = map[string]any{}
		}
		err = s.putEvent(ctx, admin, event.StartsAt, now.Add(-time.Hour), now, presale)
	}
	if err != nil {
		return fmt.Errorf("close the sale: %w", err)
	}
	return callAsOperator(ctx, admin, http.MethodPost, "/api/v1/admin/vwr/deactivate/"+s.EventID, map[string]any{})
}

// returnWithin is the longest time, in seconds, until a returned seat is for sale again. It is long
// enough that seats do not return at once, and so short that nobody waits long for the last ones.
const returnWithin = 2

// putEvent creates or changes the event by the operators' API. A nil presale leaves the event's
// presale unchanged.
func (s Sale) putEvent(ctx context.Context, admin *Session, starts, opens, closes time.Time, presale map[string]any) error {
	event := map[string]any{
		"title": "Demo " + s.EventID, "artist": "The Crowd", "venue": "Hall 1",
		"startsAt": starts, "salesOpenAt": opens, "salesCloseAt": closes,
		"seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 2, "returnWithin": returnWithin, "transferable": "PRICED",
		"holdSeconds": s.Hold, "slotSeconds": s.Slot, "threshold": s.Threshold, "sections": s.sections(),
	}
	if presale != nil {
		event["presale"] = presale
	}
	return callAsOperator(ctx, admin, http.MethodPut, "/api/v1/admin/events/"+s.EventID, event)
}

// sections describes sections for all seats: one with full rows, and one with the rest.
func (s Sale) sections() []map[string]any {
	var out []map[string]any
	if rows := s.Seats / seatsPerRow; rows > 0 {
		out = append(out, map[string]any{"section": "A", "price": 55000, "rows": rows, "seatsPerRow": seatsPerRow})
	}
	if lastRow := s.Seats % seatsPerRow; lastRow > 0 {
		out = append(out, map[string]any{"section": "B", "price": 33000, "rows": 1, "seatsPerRow": lastRow})
	}
	return out
}

// callAsOperator makes an operator's call, which must be safe to repeat.
func callAsOperator(ctx context.Context, admin *Session, method, path string, body any) error {
	ans, err := admin.callRepeatedly(ctx, StepLogin, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if !ans.OK() {
		return fmt.Errorf("%s %s: %d %s", method, path, ans.Status, firstLine(ans.Body))
	}
	return nil
}
