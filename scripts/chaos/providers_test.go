package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/faults"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/payer"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/fakes"
)

// switchedSize is the size of a sale in which the provider is switched. kafkaAway is longer than a
// claim on places that is not extended; 0: Kafka stays up.
type switchedSize struct {
	visitors, rivals int // rivals try to get the buyers' places
	kafkaAway        time.Duration
	webhooks         fakes.Faults // faults of webhooks
}

var (
	longSwitch = switchedSize{
		visitors: 1000, rivals: 20, kafkaAway: 4 * time.Minute,
		webhooks: fakes.Faults{Missing: 0.04, Repeated: 0.03, Delayed: 0.02, Forged: 0.01},
	}
	shortSwitch = switchedSize{visitors: 24, webhooks: fakes.Faults{Repeated: 0.05, Forged: 0.05}}
)

// switched is a sale whose operators switch the default payment provider.
type switched struct {
	*hall

	switchedSize
	ticket, payment *pgxpool.Pool
	buyers          []*payingBuyer
}

// payingBuyer is a buyer with a provider's payment page. plan selects what the buyer does there.
type payingBuyer struct {
	*buyer

	plan           int
	provider, page string
	paid           bool
}

// TestSwitchOfProviders lets visitors pay at Stripe and Toss Payments, where a tenth of calls and
// webhooks fails. Operators switch the default provider by a rolling restart while pages of the old
// one are open. Then one payment replica has only the new one. In the full form Kafka is down from
// before the payments until after the claims on the places would have ended, and rivals try to get
// the places. Every buyer who has paid gets the places, all payments end, and the books agree.
func TestSwitchOfProviders(t *testing.T) {
	parallelIfShort(t)
	seed, _ := seededRandom(t)
	size := shortSwitch
	if *full {
		size = longSwitch
	}
	names, day := []string{platform.Stripe, platform.Toss}, time.Now().UTC()
	r := setup(t, shortSale, seed, func(o *harness.Options) {
		o.Providers, o.Links = names, false
		o.Replicas = map[string]int{platform.Ticket: 2, platform.Payment: 2}
		o.Env[platform.Payment] = append(o.Env[platform.Payment],
			"STRIPE_PAGE_TIME=5m", "TOSS_PAGE_TIME=5m", "STRIPE_PER_SECOND=10000", "STRIPE_ENDPOINT_PER_SECOND=10000", "TOSS_PER_SECOND=10000")
		o.Services = []string{
			platform.Gateway, platform.VWR, platform.Queue, platform.Ticket, platform.Payment, platform.Stats, platform.Sandbox, platform.Ingest, platform.Worker,
		}
	})
	s := &switched{switchedSize: size, hall: openHall(r, 1, size.visitors, 60), ticket: r.DB(platform.Ticket), payment: r.DB(platform.Payment)}
	for _, name := range names {
		s.Fake(name).SetFaults(s.faults(seed, name))
	}
	s.open(size.visitors / 2)
	s.requireAt(platform.Stripe, size.visitors/2)
	s.switchTo(platform.Toss, platform.Stripe)
	s.open(size.visitors - size.visitors/2)
	s.requireAt(platform.Toss, size.visitors-size.visitors/2)
	s.Service(platform.Payment).RestartWith(1, "PAYMENT_PROVIDERS="+platform.Toss)
	s.requireDifferentProviders()
	s.payWhileKafkaIsAway()
	for i := range 2 {
		require.True(t, s.Service(platform.Payment).Running(i), "a replica has died of a payment that it cannot serve")
	}
	s.Service(platform.Payment).RestartWith(1, "PAYMENT_PROVIDERS=toss,stripe")
	s.payAgain()
	s.requireBooks()
	s.requireReconciled(day, names)
}

// faults returns faults for a tenth of the calls, and for webhooks. Toss repeats the error of a
// confirmation that it did not make, after which a payment ends only a quarter of an hour later.
func (s *switched) faults(seed uint64, provider string) fakes.Faults {
	f := s.webhooks
	f.Seed, f.LateFor = seed, faults.Duration(2*time.Second)
	f.Lost, f.Dropped, f.Late, f.Broken, f.Failed, f.Limited, f.Garbled = 0.02, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01
	if provider == platform.Toss {
		f.Lost, f.Failed = f.Lost+f.Failed, 0
	}
	return f
}

// open admits n buyers, who hold a place and open the page of the default provider.
func (s *switched) open(n int) {
	var mu sync.Mutex
	s.each(n, func(ctx context.Context, b *buyer) {
		s.hold(ctx, b)
		paying := &payingBuyer{buyer: b}
		require.NoError(s.t, s.prepare(paying))
		mu.Lock()
		defer mu.Unlock()
		paying.plan = len(s.buyers)
		s.buyers = append(s.buyers, paying)
	})
}

// prepare opens a page. A replica without the provider of the open payment returns no page.
func (s *switched) prepare(b *payingBuyer) (err error) {
	s.Eventually(func(ctx context.Context) error {
		var got struct {
			PaymentID, OrderID, Provider string
			Page                         struct{ URL string }
		}
		var a *harness.Answer
		a, err = b.With("Idempotency-Key", uuid.NewString()).Call(ctx, http.MethodPost, "/api/v1/payments/prepare",
			map[string]any{"paymentType": "reservation", "referenceId": b.ReservationID})
		switch {
		case err != nil || a.Overloaded():
			return fmt.Errorf("answered %d: %w", a.Status, err)
		case a.Status/100 != 2:
			err = fmt.Errorf("prepare: %d %s", a.Status, a.Body)
			return nil
		case a.Decode(&got) != nil || got.Page.URL == "":
			return fmt.Errorf("no page: %s", a.Body)
		}
		b.PaymentID, b.OrderID, b.provider, b.page = got.PaymentID, got.OrderID, got.Provider, got.Page.URL
		return nil
	})
	return err
}

// requireAt requires that n of the payments so far are at a provider.
func (s *switched) requireAt(provider string, n int) {
	got := 0
	for _, b := range s.buyers {
		if b.provider == provider {
			got++
		}
	}
	require.Equal(s.t, n, got, "payments at %s", provider)
}

// switchTo changes the order of the providers by a rolling restart.
func (s *switched) switchTo(names ...string) {
	for i := range 2 {
		s.Service(platform.Payment).RestartWith(i, "PAYMENT_PROVIDERS="+strings.Join(names, ","))
	}
}

// requireDifferentProviders requires that the payment replicas have different providers.
func (s *switched) requireDifferentProviders() {
	for _, want := range []int{1, 2} {
		s.Eventually(func(ctx context.Context) error {
			var got struct{ Providers []string }
			a, err := s.Visitor().Call(ctx, http.MethodGet, "/api/v1/payments/providers", nil)
			if err == nil && (a.Decode(&got) != nil || len(got.Providers) != want) {
				err = fmt.Errorf("no replica has %d providers: %s", want, a.Body)
			}
			return err
		})
	}
}

// payWhileKafkaIsAway lets the buyers pay, and restarts Kafka when the claims would have ended.
func (s *switched) payWhileKafkaIsAway() {
	if s.kafkaAway == 0 {
		s.pay()
		return
	}
	rivals := s.each(s.rivals, func(context.Context, *buyer) {})
	s.Backend("kafka").Kill()
	s.pay()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.kafkaAway)
	defer cancel()
	s.compete(ctx, rivals)
	s.requireClaims()
	s.Backend("kafka").Start()
}

// pay lets all buyers act on their pages.
func (s *switched) pay() { forEach(s.buyers, s.act) }

// act does what a buyer plans, mostly paying. A buyer who pays at Stripe and does not come back has
// still paid.
func (s *switched) act(b *payingBuyer) {
	choices := []payer.Choice{payer.Pay}
	switch b.plan % 16 {
	case 0:
		choices = []payer.Choice{payer.Back, payer.Pay}
	case 1:
		if b.provider == platform.Stripe { // Toss declines the charge, and may keep an error instead of that
			choices = []payer.Choice{payer.Decline, payer.Pay}
		}
	case 2:
		if b.provider == platform.Stripe && s.kafkaAway > 0 { // a missing webhook takes long
			choices = []payer.Choice{payer.Stay}
		}
	}
	for _, choice := range choices {
		if err := b.OnPage(s.t.Context(), b.page, choice); err != nil {
			s.t.Errorf("%s at %s: %v", choice, b.provider, err)
		}
	}
}

// claimExtension is the time by which the ticket service extends a payment's claim on its places.
const claimExtension = 3 * time.Minute

// compete lets rivals try to get places until ctx ends. It cuts all claims to claimExtension, as
// after one extension, so that all end before ctx does unless they are extended again.
func (s *switched) compete(ctx context.Context, rivals []*buyer) {
	answers := map[string]int{}
	for ctx.Err() == nil {
		_, err := s.ticket.Exec(ctx, `UPDATE reservations SET expires_at = now() + $1::interval
			WHERE status = 'PAYING' AND expires_at > now() + $1::interval`, claimExtension)
		if err != nil && ctx.Err() == nil {
			s.t.Errorf("cut the claims: %v", err)
		}
		for _, b := range rivals {
			_, _ = b.Call(ctx, http.MethodPost, "/api/v1/queue/heartbeat/"+s.event, map[string]any{})
			a, err := b.With("Idempotency-Key", uuid.NewString()).Call(ctx, http.MethodPost, "/api/v1/reservations",
				map[string]any{"eventId": s.event, "section": "A", "quantity": 1})
			if err == nil {
				answers[fmt.Sprint(a.Status, " ", a.Code())]++
			}
		}
		pause(ctx, time.Second)
	}
	s.t.Logf("rivals were answered %v", answers)
	require.Positive(s.t, answers["409 SOLD_OUT"])
}

// requireClaims requires that each paid buyer still has a claim on the places.
func (s *switched) requireClaims() {
	ctx := s.t.Context()
	rows, _ := s.payment.Query(ctx, `SELECT id FROM payments WHERE captured > 0`)
	paid, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(s.t, err)
	var kept int
	require.NoError(s.t, s.ticket.QueryRow(ctx, `SELECT count(*) FROM reservations
		WHERE payment_id = ANY ($1) AND status = 'PAYING' AND expires_at > now()`, paid).Scan(&kept))
	s.t.Logf("%d have paid while Kafka is away", len(paid))
	require.Greater(s.t, len(paid), s.visitors/2)
	require.Equal(s.t, len(paid), kept, "claims of the places of those who have paid")
}

// payAgain lets buyers whose payment ended without a charge pay again while they hold their places,
// and waits until all payments have ended.
func (s *switched) payAgain() {
	var mu sync.Mutex
	ends := map[string]int{}
	forEach(s.buyers, func(b *payingBuyer) {
		end := s.finish(b)
		mu.Lock()
		defer mu.Unlock()
		ends[end]++
	})
	s.t.Logf("ends: %v", ends)
	minConfirmed := s.visitors / 2
	if s.kafkaAway == 0 {
		minConfirmed = s.visitors
	}
	require.GreaterOrEqual(s.t, ends["CONFIRMED"], minConfirmed)
}

// finish continues a buyer's payments until one is paid, or none is possible, and returns which.
func (s *switched) finish(b *payingBuyer) (end string) {
	for {
		var status string
		s.Eventually(func(ctx context.Context) error {
			var p struct{ Status string }
			a, err := b.Call(ctx, http.MethodGet, "/api/v1/payments/"+b.PaymentID, nil)
			if err == nil && (a.Decode(&p) != nil || p.Status == "PREPARED" || p.Status == "OPEN" || p.Status == "PENDING" || p.Status == "") {
				err = fmt.Errorf("payment %s at %s is under way: %d %s", b.PaymentID, b.provider, a.Status, a.Body)
			}
			status = p.Status
			return err
		})
		if b.paid = status == "CONFIRMED"; b.paid || status != "EXPIRED" && status != "DECLINED" {
			return status
		}
		if err := s.prepare(b); err != nil {
			return "places lost without a payment"
		}
		b.plan = 3 // it pays
		s.act(b)
	}
}

// requireBooks waits until all payments have ended. It requires that nobody was charged for lost
// places, and that the providers, the payment database and the ticket database agree.
func (s *switched) requireBooks() {
	s.requireSettled()
	s.requireNoFaults()
	var refunds int
	require.NoError(s.t, s.payment.QueryRow(s.t.Context(), `SELECT count(*) FROM refunds`).Scan(&refunds))
	require.Zero(s.t, refunds, "somebody has paid, and lost the places")
	letters, err := s.stores.DeadLetters(s.t.Context())
	require.NoError(s.t, err)
	require.Empty(s.t, letters)
}

// requireNoFaults waits until the providers' accounts, the databases and the sales figures agree.
func (s *switched) requireNoFaults() {
	s.Eventually(func(ctx context.Context) error {
		faults, err := s.stores.Faults(ctx, s.event)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = errors.New(strings.Join(all, "\n"))
		}
		return err
	})
}
