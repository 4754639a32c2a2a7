package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// deathLimit is the time limit for one death and what follows. Usually this takes 4 s.
const deathLimit = 3 * time.Minute

// servicePoint is a failpoint of one service. Several services have the relay's failpoints.
type servicePoint struct{ service, point string }

// death is the kill of a process at a failpoint that a buyer's journey passes.
type death struct {
	servicePoint

	journey string
	before  step // runs before the failpoint is armed
	act     step // passes the failpoint
	after   step // runs once nothing is in progress
	want    outcome
	slow    bool // too slow for the short form
}

// deathRun is a platform with one replica of each service, so that calls pass the armed process.
type deathRun struct {
	*run

	kafka           *kgo.Client
	ticket, payment *pgxpool.Pool
	outcomes        map[servicePoint][]string // outcomes of the deaths at each failpoint
}

// TestFailpoints kills the payment, ticket, queue and stats services at each of their failpoints,
// one after the other, while a buyer's journey passes it. After the restart, the buyer has the
// tickets or the money, and the stores and the provider's ledger agree. The short form kills one
// process of the ticket service and one of the payment service.
func TestFailpoints(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	r := &deathRun{outcomes: map[servicePoint][]string{}, run: setup(t, shortSale, seed, func(o *harness.Options) {
		o.Links, o.OwnBackends, o.Replicas, o.ProviderPage = false, false, nil, true
		o.Providers = []string{platform.Sandbox, platform.Stripe, platform.Toss}
		o.Services = []string{
			platform.Gateway, platform.VWR, platform.Queue, platform.Ticket, platform.Payment, platform.Stats, platform.Sandbox,
		}
	})}
	r.ticket, r.payment = r.DB(platform.Ticket), r.DB(platform.Payment)
	var err error
	r.kafka, err = kgo.NewClient(kgo.SeedBrokers(r.Brokers()...))
	require.NoError(t, err)
	t.Cleanup(r.kafka.Close)
	all := deaths()
	if !*full {
		all = []death{anyQuick(rng, all, platform.Ticket), anyQuick(rng, all, platform.Payment)}
	}
	for _, d := range all {
		r.die(d)
	}
	letters, err := r.stores.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Empty(t, letters, "a death is no reason to put an event aside")
	r.logDeaths(all)
}

// anyQuick chooses a random death of a service that is not slow.
func anyQuick(rng *rand.Rand, all []death, service string) death {
	all = slices.DeleteFunc(slices.Clone(all), func(d death) bool { return d.service != service || d.slow })
	return all[rng.IntN(len(all))]
}

// die kills one process at its failpoint, starts it again, and judges the buyer's outcome. A call
// that the death leaves unanswered is repeated with the same key, as a page does.
func (r *deathRun) die(d death) {
	ctx, cancel := context.WithTimeout(r.t.Context(), deathLimit)
	defer cancel()
	v := r.newVictim()
	require.NoError(r.t, d.before.run(ctx, v), d.point)
	require.NoError(r.t, retry(ctx, func() error { return r.checkPublished(ctx) }), d.point)
	s := r.Service(d.service)
	s.RestartWithFailpoints(0, d.point+"=exit")
	done := make(chan error, 1)
	go func() { done <- d.act.run(ctx, v) }()
	require.Equal(r.t, "signal: killed", s.AwaitEnd(0), d.point)
	close(v.died)
	r.leaveGroup(ctx, d.service)
	if d.service == platform.Payment {
		r.endLeases(ctx)
	}
	s.Start(0)
	require.NoError(r.t, <-done, d.point)
	require.NoError(r.t, retry(ctx, func() error { return r.checkIdle(ctx) }), d.point)
	require.NoError(r.t, d.after.run(ctx, v), d.point)
	require.NoError(r.t, retry(ctx, func() error { return r.judge(ctx, v, d) }), d.point)
	r.outcomes[d.servicePoint] = append(r.outcomes[d.servicePoint], d.journey+": "+d.want.String())
	r.t.Logf("%s died at %s: %s: %s", d.service, d.point, d.journey, d.want)
}

// judge returns an error while something is in progress, the buyer does not have the wanted
// outcome, or the stores do not agree.
func (r *deathRun) judge(ctx context.Context, v *victim, d death) error {
	err := r.checkIdle(ctx)
	if err != nil {
		return err
	}
	got, err := v.outcome(ctx)
	if err == nil && got != d.want {
		err = fmt.Errorf("%s of %s, %s: %s, not %s", d.point, d.service, d.journey, got, d.want)
	}
	if err != nil {
		return err
	}
	judge := r.stores.Faults
	if v.cancelled {
		judge = r.stores.CancelledFaults
	}
	faults, err := judge(ctx, v.event)
	if all := faults.All(); err == nil && len(all) > 0 {
		err = errors.New(strings.Join(all, "\n"))
	}
	if err != nil {
		return err
	}
	sales, err := r.stores.Sales(ctx, v.event)
	if want := (audit.Sales{Capacity: 10, Sold: d.want.tickets + d.want.passedOn}); err == nil && sales != want {
		err = fmt.Errorf("%s: %+v, not %+v", d.point, sales, want) // counts tickets in a refund
	}
	return err
}

// checkIdle returns an error while something is in progress.
func (r *deathRun) checkIdle(ctx context.Context) error { return checkIdle(ctx, r.ticket, r.payment) }

// checkPublished returns an error while an event waits for its relay, since it would pass the
// failpoint before the buyer's event.
func (r *deathRun) checkPublished(ctx context.Context) error {
	for _, db := range []*pgxpool.Pool{r.ticket, r.payment} {
		var rows int
		if err := db.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&rows); err != nil {
			return err
		}
		if rows > 0 {
			return fmt.Errorf("%d events are not published", rows)
		}
	}
	return nil
}

// leaveGroup removes the consumer of a killed process from its group. The broker would do this only
// after the session of 10 s.
func (r *deathRun) leaveGroup(ctx context.Context, service string) {
	r.t.Helper()
	name := r.Wiring().KafkaPrefix + service + "-service-group"
	groups, err := kadm.NewClient(r.kafka).DescribeGroups(ctx, name)
	require.NoError(r.t, err)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = name
	for _, m := range groups[name].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	_, err = req.RequestWith(ctx, r.kafka)
	require.NoError(r.t, err)
}

// endLeases ends the leases of a dead payment process, which last for a minute.
func (r *deathRun) endLeases(ctx context.Context) {
	r.t.Helper()
	for _, sql := range []string{
		`UPDATE payments SET check_at = now() WHERE check_at > now() AND status <> 'PREPARED'`,
		`UPDATE refunds SET due_at = now() WHERE due_at > now()`,
	} {
		_, err := r.payment.Exec(ctx, sql)
		require.NoError(r.t, err)
	}
}

// logDeaths logs the failpoints with their outcomes, in the order of the deaths.
func (r *deathRun) logDeaths(all []death) {
	var list strings.Builder
	for _, d := range all {
		if done := r.outcomes[d.servicePoint]; done != nil {
			fmt.Fprintf(&list, "\n%s %s | killed %d times | %s", d.service, d.point, len(done), strings.Join(done, "; "))
			delete(r.outcomes, d.servicePoint)
		}
	}
	r.t.Logf("failpoint | killed | outcomes%s", list.String())
}

// newVictim creates a sale of ten seats, and a buyer who has not entered it yet.
func (r *deathRun) newVictim() *victim {
	v := &victim{run: r, event: "death-" + uuid.NewString()[:8], died: make(chan struct{})}
	v.Client = r.Client("u-" + v.event)
	v.putSale()
	return v
}
