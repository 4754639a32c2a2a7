package harness_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

func TestMain(m *testing.M) { harness.Main(m) }

// onlySandbox starts a platform of the sandbox alone, which needs no backends.
func onlySandbox(t *testing.T) *harness.Platform {
	t.Helper()
	return harness.Start(t, harness.Options{Services: []string{"sandbox"}})
}

// withOwnBackends is onlySandbox for tests that kill or pause backends.
func withOwnBackends(t *testing.T) *harness.Platform {
	t.Helper()
	return harness.Start(t, harness.Options{Services: []string{"sandbox"}, OwnBackends: true})
}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestKillPauseAndStart(t *testing.T) {
	t.Parallel()
	p := onlySandbox(t)
	s := p.Service("sandbox")
	ping := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := get(ctx, "http://"+s.Addr(0)+"/readyz")
		return err
	}
	require.NoError(t, ping(time.Minute))

	s.Pause(0)
	require.ErrorIs(t, ping(300*time.Millisecond), context.DeadlineExceeded, "a paused replica answers nothing")
	s.Resume(0)
	require.NoError(t, ping(time.Minute))

	s.Kill(0)
	require.False(t, s.Running(0))
	require.Equal(t, "signal: killed", s.AwaitEnd(0))
	require.Error(t, ping(time.Minute))
	s.Start(0)
	require.NoError(t, ping(time.Minute))
}

func TestBackendsKeepDataAcrossRestarts(t *testing.T) {
	p := withOwnBackends(t)
	ctx := t.Context()
	key := "harness:" + t.Name()
	require.NoError(t, p.Redis().Set(ctx, key, "kept", 0).Err())
	p.Eventually(func(ctx context.Context) error { // a kill loses a write that is not flushed
		info, err := p.Redis().Info(ctx, "persistence").Result()
		if err == nil && !strings.Contains(info, "aof_buffer_length:0\r\n") {
			err = errors.New("redis has not written everything")
		}
		return err
	})
	p.Backend("redis").Kill()
	p.Eventually(func(ctx context.Context) error {
		if p.Redis().Ping(ctx).Err() == nil {
			return errors.New("redis answers after its end")
		}
		return nil
	})
	p.Backend("redis").Start()
	value, err := p.Redis().Get(ctx, key).Result()
	require.NoError(t, err)
	require.Equal(t, "kept", value)

	db := p.DB("ticket")
	p.Backend("postgres").Pause()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	require.Error(t, db.Ping(short))
	p.Backend("postgres").Resume()
	require.NoError(t, db.Ping(ctx))
}

// Backends that one test has killed or paused are restored for the next.
func TestBackendsAreRestoredAfterARun(t *testing.T) {
	t.Run("breaks", func(t *testing.T) {
		p := withOwnBackends(t)
		p.Backend("kafka").Pause()
		p.Backend("postgres").Kill()
	})
	p := withOwnBackends(t)
	var one int
	require.NoError(t, p.DB("stats").QueryRow(t.Context(), "SELECT 1").Scan(&one))
	_, err := p.Records(t.Context(), "no-such-topic")
	require.ErrorContains(t, err, "UNKNOWN_TOPIC", "the broker answers again")
}

func TestReplicasListenOnOnePortOfSeveralAddresses(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{Services: []string{"sandbox"}, Replicas: map[string]int{"sandbox": 2}})
	for i := range p.Service("sandbox").Replicas() {
		code, err := get(t.Context(), "http://"+p.Service("sandbox").Addr(i)+"/readyz")
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, code, "replica "+strconv.Itoa(i))
	}
}

func TestDatabasesExist(t *testing.T) {
	t.Parallel()
	p := onlySandbox(t)
	for _, service := range []string{"ticket", "payment", "stats"} {
		var name string
		err := p.DB(service).QueryRow(t.Context(), "SELECT current_database()").Scan(&name)
		require.NoError(t, err)
		require.Regexp(t, `^run\d+x\w{6}_urr_`+service+`$`, name, "a database of the run's own")
	}
}

// Runs on the same servers are isolated, and leave no data behind.
func TestRunsOnSharedServersAreIsolated(t *testing.T) {
	t.Parallel()
	ctx := context.WithoutCancel(t.Context())
	var first, second platform.Wiring
	t.Run("runs", func(t *testing.T) {
		one, other := onlySandbox(t), onlySandbox(t)
		first, second = one.Wiring(), other.Wiring()
		require.NoError(t, one.Redis().Set(ctx, "harness", "mine", 0).Err())
		require.ErrorIs(t, other.Redis().Get(ctx, "harness").Err(), redis.Nil)
		_, err := one.DB("ticket").Exec(ctx, "CREATE TABLE mine (id int)")
		require.NoError(t, err)
		var exists bool
		require.NoError(t, other.DB("ticket").QueryRow(ctx, "SELECT to_regclass('mine') IS NOT NULL").Scan(&exists))
		require.False(t, exists)
	})
	require.NotEqual(t, first.KafkaPrefix, second.KafkaPrefix)
	require.NotEqual(t, first.DynamoDBPrefix, second.DynamoDBPrefix)
	require.NotEqual(t, first.RequestsQueue, second.RequestsQueue)
	ticket, err := platform.Lookup(platform.Ticket)
	require.NoError(t, err)
	_, err = pgx.Connect(ctx, first.DatabaseURL(ticket))
	require.ErrorContains(t, err, "does not exist")
}

// A shared platform serves every test, and no test can stop its processes.
func TestSharedPlatformRefusesFaults(t *testing.T) {
	t.Parallel()
	one, other := harness.Shared(t), harness.Shared(t)
	require.Equal(t, one.Wiring().KafkaPrefix, other.Wiring().KafkaPrefix)
	answer := one.Visitor().CallWhileOverloaded(t.Context(), http.MethodGet, "/api/v1/events", nil)
	require.Equal(t, http.StatusOK, answer.Status)
	for name, act := range map[string]func(*harness.Platform){
		"kill":    func(p *harness.Platform) { p.Service("stats").Kill(0) },
		"backend": func(p *harness.Platform) { p.Backend("redis") },
	} {
		require.Panics(t, func() { act(other.ForTest(&refusing{TB: t})) }, name)
	}
}

// refusing is a test whose failure is expected.
type refusing struct{ testing.TB }

func (*refusing) Fatalf(string, ...any) { panic("refused") }
