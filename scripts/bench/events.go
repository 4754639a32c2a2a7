package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/claims"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// longTimeout returns the dial option for a call timeout that is long enough for a busy machine.
func longTimeout() rpc.DialOption { return rpc.WithTimeout(time.Minute) }

func operatorCaller() *commonv1.Caller {
	return &commonv1.Caller{UserId: "bench", Roles: []string{"admin"}}
}

// putEventRequest returns a request to the ticket service that puts an event on sale.
func putEventRequest(id string, maxPerUser int32, sections ...*ticketv1.SectionSpec) *ticketv1.PutEventRequest {
	seating := "ASSIGNED"
	for _, s := range sections {
		s.Price = 55000
		if s.Capacity != nil {
			seating = "GENERAL"
		}
	}
	now := time.Now()
	return &ticketv1.PutEventRequest{Caller: operatorCaller(), EventId: id, Spec: &ticketv1.EventSpec{
		Title: "Bench", Artist: "The Crowd", Venue: "Hall 1",
		StartsAt: timestamppb.New(now.Add(30 * 24 * time.Hour)), SalesOpenAt: timestamppb.New(now.Add(-time.Minute)),
		SalesCloseAt: timestamppb.New(now.Add(24 * time.Hour)), Seating: seating, Currency: "KRW", MaxPerUser: maxPerUser, Sections: sections,
	}}
}

// putEvent puts an event on sale by the operators' HTTP API. The body also has the fields in more.
func putEvent(ctx context.Context, p *harness.Platform, id string, threshold int, more map[string]any, sections ...map[string]any) {
	now := time.Now().UTC().Truncate(time.Second)
	event := map[string]any{
		"title": "Bench", "artist": "The Crowd", "venue": "Hall 1", "startsAt": now.Add(30 * 24 * time.Hour), "salesOpenAt": now.Add(-time.Minute),
		"salesCloseAt": now.Add(24 * time.Hour), "seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 2, "threshold": threshold, "sections": sections,
	}
	maps.Copy(event, more)
	p.Operator().MustCall(ctx, http.MethodPut, "/api/v1/admin/events/"+id, event, nil)
}

func sectionBody(name string, rows, seatsPerRow int) map[string]any {
	return map[string]any{"section": name, "price": 55000, "rows": rows, "seatsPerRow": seatsPerRow}
}

// admittedUser is a signed-in browser that has a slot: the permission to be in an event's shop.
type admittedUser struct {
	visitor

	entry claims.Entry
}

// admitUsers signs n users in, waits until each has a slot of the event, and returns them.
func admitUsers(ctx context.Context, p *harness.Platform, event string, n int) ([]admittedUser, error) {
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	defer api.Close()
	all := make([]admittedUser, n)
	return all, runConcurrently(ctx, 16, n, func(ctx context.Context, i int) error {
		browser := api.NewSession()
		if err := browser.DevLogin(ctx, fmt.Sprintf("bench-%04d", i)); err != nil {
			return err
		}
		var place struct{ Status, EntryToken string }
		for place.EntryToken == "" {
			if err := postJSON(ctx, browser, crowd.StepQueueJoin, "/api/v1/queue/check/"+event, &place); err != nil {
				return err
			}
			if place.EntryToken == "" && !loop.Sleep(ctx, time.Second) {
				return fmt.Errorf("visitor %d is not admitted: %q: %w", i, place.Status, ctx.Err())
			}
		}
		all[i].visitor = visitor{address: browser.Address(), cookies: browser.Cookies()}
		_, _, err := jwt.NewParser().ParseUnverified(place.EntryToken, &all[i].entry)
		return err
	})
}

// newEntryToken signs an entry token for the user's slot, as the queue service does, for a minute.
func (i *admittedUser) newEntryToken(p *harness.Platform, event string) string {
	return p.EntryToken(event, i.entry.UserID, i.entry.SlotID, i.entry.Epoch, time.UnixMilli(i.entry.End))
}

// runConcurrently calls do once for each number from 0 to n-1, in at most `clients` goroutines.
func runConcurrently(ctx context.Context, clients, n int, do func(ctx context.Context, i int) error) error {
	var begun atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(clients, n) {
		group.Go(func() error {
			for i := int(begun.Add(1) - 1); i < n; i = int(begun.Add(1) - 1) {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func microsPerItem(elapsed time.Duration, n int) float64 {
	return float64(elapsed.Nanoseconds()) / 1000 / float64(n)
}

// settleLimit is how long awaitState waits for a state.
const settleLimit = time.Minute

// awaitState repeats a database query until it returns true; goal describes this in the error.
func awaitState(ctx context.Context, db *pgxpool.Pool, goal, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		var reached bool
		if err := db.QueryRow(ctx, query, args...).Scan(&reached); err != nil {
			return fmt.Errorf("wait for %s: %w", goal, err)
		}
		if reached {
			return nil
		}
		if !loop.Sleep(ctx, 5*time.Millisecond) {
			return errors.New("no " + goal + " in time")
		}
	}
}

// awaitPublished waits until all Kafka events are published, so that the outboxes are empty.
func awaitPublished(ctx context.Context, databases ...*pgxpool.Pool) error {
	for _, db := range databases {
		if err := awaitState(ctx, db, "an empty outbox", `SELECT NOT EXISTS (SELECT 1 FROM outbox)`); err != nil {
			return err
		}
	}
	return nil
}

// benchRow is a row of the report with two measurements: of its subject and of its baseline.
type benchRow struct {
	result            benchtest.Result
	subject, baseline benchtest.MeasureFunc
	// begin runs before the measurements. check runs after them, and returns an error if the stored
	// data is wrong. Both may be nil.
	begin, check func(context.Context) error
}

// measureRows measures the rows whose names are in wanted, and passes each result to addResult.
func measureRows(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result), rows ...benchRow) error {
	for _, row := range rows {
		if !slices.Contains(wanted, row.result.Name) {
			continue
		}
		if row.begin != nil {
			if err := row.begin(ctx); err != nil {
				return fmt.Errorf("%s: %w", row.result.Name, err)
			}
		}
		r, err := compareSides(ctx, opts.Rounds, row.result, row.subject, row.baseline)
		if err == nil && row.check != nil {
			err = row.check(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", row.result.Name, err)
		}
		addResult(r)
	}
	return nil
}
