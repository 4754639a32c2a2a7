package crowd

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// Cheats are users who try to get something for nothing, in a small sale of their own beside that of
// the crowd. Every attempt has one right outcome, mostly a documented refusal; any other is a wrong
// answer of the tally. After its attempts a user pays as others do, so that the books of the sale
// show whether an attempt has moved money.
type Cheats struct {
	*Crowd

	// other is another event, at which neither codes nor tickets of this sale are valid.
	other      string
	code       string // a presale code of this sale
	member     *visitor
	membership string // of member, and unpaid
	tried      atomic.Int64
	noPage     atomic.Bool // the provider has no page of its own
}

const (
	// Every run makes this many attempts, and so many fewer if the provider has no page of its own.
	cheatAttempts, cheatsOnPages = 20, 2
	// cheatSeats are enough for all cheats, each with two seats.
	cheatSeats = 20
)

// NewCheats prepares the cheats beside a sale, which must be open before Run.
func NewCheats(beside Sale, api *API, after AfterSale, seed uint64) *Cheats {
	sale := Sale{EventID: beside.EventID + "-cheats", Seats: cheatSeats, Threshold: cheatSeats, Rate: cheatSeats, Hold: 300, Slot: 60}
	return &Cheats{Crowd: New(sale, api, Options{Seed: seed, MaxPaymentAttempts: 3, AfterSale: &after}), other: beside.EventID}
}

// Sale returns the sale of the cheats.
func (c *Cheats) Sale() Sale { return c.sale }

// Tried returns the number of attempts.
func (c *Cheats) Tried() int { return int(c.tried.Load()) }

// Open opens the sale, makes a presale code for it, and begins the purchase of a membership.
func (c *Cheats) Open(ctx context.Context, operator string) error {
	if err := c.sale.Open(ctx, c.api, operator); err != nil {
		return err
	}
	office, err := c.signInOperator(ctx, operator)
	if err != nil {
		return err
	}
	var batch struct{ Codes []string }
	codes := "/api/v1/admin/events/" + c.sale.EventID + "/codes"
	if err := office.post(ctx, StepCheat, codes, map[string]any{"codeList": presaleList, "count": 1}, &batch); err != nil {
		return err
	}
	c.code = strings.Join(batch.Codes, "")
	plan, err := office.beginPlan(ctx)
	if err != nil {
		return err
	}
	if c.member, err = c.signIn(ctx, "member"); err != nil {
		return err
	}
	if c.membership, err = c.member.orderMembership(ctx, plan); err != nil {
		return err
	}
	return office.endPlan(ctx, plan)
}

// Run makes all attempts. If one was not made, that is a wrong answer of the tally.
func (c *Cheats) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, play := range []func(context.Context) error{
		c.payWrongly, c.payWithForeignKey, c.payTwice, c.payNothingForTransfer, c.useForeignCode,
		func(ctx context.Context) error { return c.refundPassedOn(ctx, "given away", 0) },
		func(ctx context.Context) error { return c.refundPassedOn(ctx, "sold to another", resalePrice) },
		func(ctx context.Context) error {
			return c.payByNobody(ctx, c.member, payable{kind: "membership", id: c.membership})
		},
	} {
		wg.Go(func() {
			if err := play(ctx); err != nil {
				c.tally.addWrongAnswer("a cheat could not go on: %v", err)
			}
		})
	}
	wg.Wait()
	want := cheatAttempts
	if c.noPage.Load() {
		want -= cheatsOnPages
	}
	if n := c.Tried(); n != want {
		c.tally.addWrongAnswer("%d attempts to cheat were made, not %d", n, want)
	}
}

// record counts an attempt, whose outcome must be the right one.
func (c *Cheats) record(way, outcome, right string) {
	c.tried.Add(1)
	if outcome != right {
		c.tally.addWrongAnswer("cheating by %s ended with %s, not with %s", way, outcome, right)
	}
}

// attempt makes a request, and records its outcome.
func (c *Cheats) attempt(ctx context.Context, v *visitor, way, method, path string, body any, right string) (*Answer, error) {
	ans, err := v.callWithRetries(ctx, StepCheat, method, path, body, map[string]string{"Idempotency-Key": uuid.NewString()})
	if err == nil {
		c.record(way, outcomeOf(ans), right)
	}
	return ans, err
}

// outcomeOf returns the code of a refusal, or else the status in the answer.
func outcomeOf(ans *Answer) string {
	if ans.Status >= http.StatusBadRequest {
		return cmp.Or(ans.Problem().Code, strconv.Itoa(ans.Status))
	}
	var got struct{ Status string }
	_ = json.Unmarshal(ans.Body, &got) // not all answers have a status
	return cmp.Or(got.Status, "success")
}

// user returns a visitor. Its user is of this run alone, since wrong codes count for an hour.
func (c *Crowd) user(name string) *visitor {
	rng := rand.New(rand.NewPCG(c.seed, uint64(crc32.ChecksumIEEE([]byte(name)))))
	return &visitor{crowd: c, rng: rng, userID: c.sale.EventID + "-" + name, session: c.api.NewSession()}
}

// signIn returns a user who is signed in, and in no waiting room.
func (c *Cheats) signIn(ctx context.Context, name string) (*visitor, error) {
	v := c.user(name)
	return v, v.login(ctx)
}

// hold brings a user through both waiting rooms, who then holds seats.
func (c *Cheats) hold(ctx context.Context, name string) (v *visitor, held reservation, err error) {
	v = c.user(name)
	for _, step := range []func(context.Context) error{v.waitInRoom, v.login, v.waitInLine} {
		if err := step(ctx); err != nil {
			return v, held, err
		}
	}
	held, err = v.holdFreeSeats(ctx)
	return v, held, err
}

// prepare lets a user hold seats and prepare their payment.
func (c *Cheats) prepare(ctx context.Context, name string) (v *visitor, held reservation, p preparedPayment, err error) {
	if v, held, err = c.hold(ctx, name); err == nil {
		p, err = v.prepare(ctx, held.payable())
	}
	return v, held, p, err
}

// buy lets a user buy tickets as others do.
func (c *Cheats) buy(ctx context.Context, name string) (v *visitor, held reservation, err error) {
	v, held, err = c.hold(ctx, name)
	if err == nil {
		err = v.pay(ctx, held)
	}
	if err == nil && len(v.tickets) == 0 {
		err = errNoTicket
	}
	return v, held, err
}
