//go:build failpoint

package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	"urr.guru/services/worker/internal/app"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// clockFile is the environment variable with the path of a file that has the test's time, in ms.
const clockFile = "URR_TEST_CLOCK_FILE"

func TestMain(m *testing.M) {
	processtest.Main(m, func() int {
		return lifecycle.Main("worker", func(ctx context.Context, cfg *app.Config, log *slog.Logger) error {
			return app.RunBy(ctx, cfg, log, fileClock(os.Getenv(clockFile))) //nolint:forbidigo // of the test itself
		}, app.Migrate)
	})
}

// fileClock reads the time from a file, which the test replaces to move the clock.
func fileClock(path string) func() time.Time {
	return func() time.Time {
		b, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		ms, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			panic(err)
		}
		return time.UnixMilli(ms)
	}
}

// crashTest is a service that is killed and restarted, and runs by the test's clock.
type crashTest struct {
	t      *testing.T
	env    map[string]string
	clock  string
	db     *awsdynamo.Client
	store  *dynamo.Store
	cutoff time.Time
	since  time.Duration // the present time, as time since the cutoff
}

func newCrash(t *testing.T) *crashTest {
	t.Helper()
	c := &crashTest{t: t, clock: filepath.Join(t.TempDir(), "clock"), cutoff: time.Date(2040, 3, 7, 12, 0, 0, 0, time.UTC)}
	c.at(-time.Minute)
	var tables pkgdynamo.Config
	tables, c.db = dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), c.db, table.Table(tables)))
	c.store = dynamo.New(c.db, tables, fileClock(c.clock), func(int) {})
	queues, _ := sqstest.Queue(t)
	b, err := drawtest.NewBeacon(fileClock(c.clock))
	require.NoError(t, err)
	relay := httptest.NewServer(b)
	t.Cleanup(relay.Close)
	prefix := kafkatest.Name("draw") + "."
	keys := drawtest.KeyConfig(1)
	c.env = map[string]string{
		clockFile: c.clock, "RPC_ACCEPT": "gateway:" + key.Reveal() + ",ingest:" + key.Reveal(), "DRAIN": "0s", "RPC_PLAIN": "development", "GRPC_ADDR": backendtest.FreeAddr(t),
		"AWS_REGION": tables.Region, "DYNAMODB_ENDPOINT": tables.Endpoint, "DYNAMODB_PREFIX": tables.Prefix,
		"SQS_ENDPOINT": queues.Endpoint, "REQUESTS_QUEUE": sqstest.Name(queues),
		"KAFKA_BROKERS": kafkatest.Config(t).Brokers[0], "KAFKA_TOPIC_PREFIX": prefix,
		"DRAW_SECRET": keys.DrawSecret.Reveal(), "DRAW_STATEMENT_KEYS": keys.DrawStatementKeys.Reveal(), "BEACON_URLS": relay.URL,
	}
	maps.Copy(c.env, kafkatest.Variables())
	topic := prefix + events.Requests
	t.Cleanup(func() { kafkatest.Delete(t, topic, topic+kafka.DLQSuffix) })
	out, err := processtest.Run(t, c.env, "migrate")
	require.NoError(t, err, out)
	return c
}

// at sets the clock, in one step, to a time after the cutoff.
func (c *crashTest) at(sinceCutoff time.Duration) {
	c.t.Helper()
	c.since = sinceCutoff
	next := c.clock + ".next"
	require.NoError(c.t, os.WriteFile(next, strconv.AppendInt(nil, c.cutoff.Add(sinceCutoff).UnixMilli(), 10), 0o600))
	require.NoError(c.t, os.Rename(next, c.clock))
}

func (c *crashTest) start(failpoints string) *processtest.Process {
	c.t.Helper()
	env := maps.Clone(c.env)
	env[failpoint.Variable] = failpoints
	p := processtest.Start(c.t, env, "serve")
	c.t.Cleanup(p.Kill)
	return p
}

// kill runs the service until it kills itself at a failpoint.
func (c *crashTest) kill(point string) {
	c.t.Helper()
	require.ErrorContains(c.t, c.start("worker.draw."+point+"=exit").Wait(), "killed", point)
	c.at(c.since + 16*time.Second) // the service's leases have ended
}

// finish runs the service until the draw is off the list and everything is announced.
func (c *crashTest) finish(entries int) map[string]string {
	c.t.Helper()
	p := c.start("")
	testkit.Until(c.t, func() bool {
		open, err := c.store.OpenDraws(c.t.Context(), draw.AllDraws)
		return err == nil && len(open) == 0
	}, "the draw to end")
	testkit.Until(c.t, func() bool {
		for i := range promotion.Partitions {
			items, _, err := c.store.Query(c.t.Context(), table.PartitionQuery{PK: table.OutboxPartition(i), Limit: 1})
			if err != nil || len(items) > 0 {
				return false
			}
		}
		return true
	}, "everything to be announced")
	p.Kill()
	announced := map[string]string{}
	for n := entries; len(announced) < entries; n += entries - len(announced) { // some may be there twice
		for _, rec := range kafkatest.Read(c.t, c.env["KAFKA_TOPIC_PREFIX"]+events.Requests, n) {
			announced[string(rec.Key)] = rec.Type
		}
	}
	return announced
}

// The service is killed at every point of a draw, and each time a new process goes on. The draw has
// one result, the signed statement stays, and all users get the result that anybody can verify.
func TestDrawSurvivesItsProcesses(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	event := drawtest.OpenLottery(t, c.store, c.cutoff, nil)
	entries := drawtest.AddEntries(t, c.store, event, 90)
	c.at(30 * time.Second)
	for _, point := range []string{"waited", "closing", "closed", "listed", "entries", "stated"} {
		c.kill(point)
	}
	stated := drawtest.Read(t, c.store, event).Draw.Statement
	require.NotEmpty(t, stated)
	c.kill("signed")
	c.at(drawtest.Round)
	c.kill("fetched")
	c.at(drawtest.Announced - 5*time.Minute)
	for _, point := range []string{"ranked", "winners", "drawn"} {
		c.kill(point)
	}
	drawn := drawtest.Read(t, c.store, event).Draw
	require.Equal(t, promotion.DrawDrawn, drawn.Phase)
	for _, e := range entries {
		r, _, err := c.store.Request(t.Context(), e.RequestID)
		require.NoError(t, err)
		require.Equal(t, promotion.Processing, r.Status, "before the announcement")
	}
	c.at(drawtest.Announced)
	for _, point := range []string{"announced", "settling_winners", "settling@20", "settled"} {
		c.kill(point)
	}
	announced := c.finish(len(entries))

	report := drawtest.Verify(t, c.store, event)
	require.True(t, report.Complete)
	require.False(t, report.SeedWithheld)
	require.Zero(t, report.Statement.MissedRounds)
	d := drawtest.Read(t, c.store, event).Draw
	require.Equal(t, promotion.DrawSettled, d.Phase)
	require.Equal(t, stated, d.Statement)
	require.Equal(t, drawn.DrawnAt, d.DrawnAt)
	winners, err := c.store.Winners(t.Context(), &d)
	require.NoError(t, err)
	won := map[string]bool{}
	for _, id := range winners {
		won[id.String()] = true
	}
	require.Len(t, won, drawtest.Winners)
	for _, e := range entries {
		r, _, err := c.store.Request(t.Context(), e.RequestID)
		require.NoError(t, err)
		code, event := promotion.RejectedLotteryLose, events.RequestRejected
		if won[e.RequestID] {
			code, event = promotion.Success, events.RequestSucceeded
		}
		require.Equal(t, code, r.ResultCode)
		require.Equal(t, event, announced[e.RequestID])
	}
}

// All requests to a cancelled lottery end, although the service is killed several times.
func TestVoidSurvivesItsProcesses(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	event := drawtest.OpenLottery(t, c.store, c.cutoff, nil)
	entries := drawtest.AddEntries(t, c.store, event, 10)
	keys, err := fairdraw.NewKeyring(drawtest.KeyConfig(1))
	require.NoError(t, err)
	drawer := draw.New(draw.Stores{Draws: c.store, Lotteries: c.store, Requests: c.store, Results: c.store}, nil, keys, nil, draw.Options{Now: fileClock(c.clock)}, slog.New(slog.DiscardHandler))
	_, err = drawer.Void(t.Context(), event)
	require.NoError(t, err)
	for _, point := range []string{"closing", "settling@3", "void_settled"} {
		c.kill(point)
	}
	announced := c.finish(len(entries))
	for _, e := range entries {
		r, _, err := c.store.Request(t.Context(), e.RequestID)
		require.NoError(t, err)
		require.Equal(t, promotion.RejectedVoid, r.ResultCode)
		require.Equal(t, events.RequestRejected, announced[e.RequestID])
	}
	drawtest.Verify(t, c.store, event)
}
