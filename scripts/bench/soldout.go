package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/benchtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const soldOutRow = "promotion_sold_out"

// runSoldOut measures the row of applications to sold-out promotions, which are not stored.
func runSoldOut(ctx context.Context, opts Options, _ []string, addResult func(benchtest.Result)) error {
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	proxy, err := awsproxy.NewCounter(layout.DynamoDBEndpoint())
	if err != nil {
		return err
	}
	defer proxy.Close()
	o := saleServices
	o.Services = append([]string{platform.Ingest, platform.Worker}, o.Services...)
	o.Env = map[string][]string{platform.Ingest: {"DYNAMODB_ENDPOINT=" + proxy.URL(platform.Ingest)}}
	return harness.Run(ctx, o, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d users sign in and apply to sold-out promotions", users)
		s := &soldOutUsers{pollPlatform: &pollPlatform{platform: p, visitors: make([]visitor, users)}, dynamo: proxy}
		if err := errors.Join(s.signIn(ctx), s.createPromotions(ctx, opts.Rounds)); err != nil {
			return err
		}
		r, err := s.measure(ctx, opts.Rounds)
		if err == nil {
			addResult(r)
		}
		return err
	})
}

// soldOutUsers are signed-in users who apply. In each round they apply to another promotion.
type soldOutUsers struct {
	*pollPlatform

	dynamo     *awsproxy.Proxy
	promotions []string
	next       atomic.Int64
}

func (s *soldOutUsers) signIn(ctx context.Context) error {
	api := crowd.NewAPI("http://"+s.platform.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	defer api.Close()
	return runConcurrently(ctx, 16, users, func(ctx context.Context, i int) error {
		browser := api.NewSession()
		err := browser.DevLogin(ctx, fmt.Sprintf("bench-%04d", i))
		s.visitors[i] = visitor{address: browser.Address(), cookies: browser.Cookies()}
		return err
	})
}

// createPromotions stores promotions without places: one for the first response, and more than one
// per round, since compareSides may add rounds.
func (s *soldOutUsers) createPromotions(ctx context.Context, rounds int) error {
	w := s.platform.Wiring()
	tables := pkgdynamo.Config{Region: "ap-northeast-2", Endpoint: s.dynamo.URL("bench"), Prefix: w.DynamoDBPrefix}
	db, err := pkgdynamo.Open(ctx, tables)
	if err != nil {
		return err
	}
	store := table.NewStore(pkgdynamo.Leases{Client: db, Table: tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: time.Now})
	for range 2*rounds + 4 {
		now := store.Millis()
		p := promotion.Promotion{
			EventID: ids.NewV7().String(), Title: "Bench", EventType: promotion.FirstCome, CapacityTotal: 100, DropRejected: true,
			OpensAt: now - 1000, ClosesAt: now + time.Hour.Milliseconds(), Shards: 1, CreatedAt: now, Version: 1,
		}
		tx := store.Begin()
		tx.Put(table.Shared, table.PromotionItem(&p), table.Absent())
		tx.Put(table.Shared, table.CapacityItem(&promotion.Capacity{EventID: p.EventID, Total: p.CapacityTotal, UpdatedAt: now}), table.Absent())
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		s.promotions = append(s.promotions, p.EventID)
	}
	return nil
}

// requests returns each user's application to the next promotion. In a round, each user applies
// three times, the first time at a gateway that does not know the user yet.
func (s *soldOutUsers) requests() [][]byte {
	n := int(s.next.Add(1)-1) % len(s.promotions)
	requests := make([][]byte, len(s.visitors))
	for i, v := range s.visitors {
		requests[i] = v.application(s.promotions[n])
	}
	return requests
}

// application returns the bytes of a visitor's application, with the headers of request.
func (v visitor) application(event string) []byte {
	const body = "{}"
	get := strings.TrimSuffix(string(v.request("/api/v1/promotions/"+event+"/requests")), "\r\n")
	return []byte("POST" + strings.TrimPrefix(get, "GET") +
		"Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

func (s *soldOutUsers) measure(ctx context.Context, n int) (r benchtest.Result, err error) {
	answer, _, err := s.sendToGateway(ctx, s.requests()[0])
	if err != nil {
		return r, err
	}
	if answer.Status != http.StatusConflict || !strings.Contains(string(answer.Body), `"SOLD_OUT"`) {
		return r, fmt.Errorf("an application: %d: %s", answer.Status, answer.Body)
	}
	before, _ := s.dynamo.Calls()
	r, err = s.measureBesideBare(ctx, n, benchtest.Result{
		Name: soldOutRow, What: "an application to a sold-out promotion without records; all apply thrice",
		Must: 0.5, Aim: 0.6,
	}, answer, pollRound{connections: 256, services: []string{platform.Gateway, platform.Ingest, platform.Worker}, requests: s.requests})
	if written := s.dynamo.CallsSince(before, "TransactWriteItems"); err == nil && written > 0 {
		err = fmt.Errorf("%d transactions were written", written)
	}
	return r, err
}
