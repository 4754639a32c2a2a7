package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	pkgredis "urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/revoked"
	"urr.guru/services/gateway/internal/web"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// asRoom returns a fixture whose gateway is a room: it has the secrets of a RoomConfig, and calls vwr
// and queue under the name of a room.
func asRoom(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t)
	setsCaller := rpctest.WithDial(rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.SetCallerInterceptor)))
	services := app.Services{
		VWR: rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
			vwrv1.RegisterVwrServiceServer(r, w.vwr)
		}, setsCaller, rpctest.As(rpc.Room)),
		Queue: rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
			queuev1.RegisterQueueServiceServer(r, w.queue)
		}, setsCaller, rpctest.As(rpc.Room)),
	}
	pages, err := web.New(web.Config{})
	require.NoError(t, err)
	room := w.cfg.RoomConfig
	g, err := app.Assemble(t.Context(), &app.Config{RoomConfig: room}, services, pages, app.Stores{}, slog.New(slog.DiscardHandler), w.now)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- g.Rooms.Watch(ctx, vwrv1.NewVwrServiceClient(services.VWR), slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, g.Close(context.Background()))
	})
	testkit.UntilNoError(t, func() error { return g.Ready(ctx) }, "the first snapshot of the waiting rooms")
	w.gateway = g
	return w
}

// A room has the routes of waiting rooms, and no others, whatever a visitor may do.
func TestRoomServesWaitingRoomsOnly(t *testing.T) {
	t.Parallel()
	w := asRoom(t)
	var served []string
	for _, r := range w.gateway.Routes() {
		served = append(served, r.ID)
	}
	require.ElementsMatch(t, []string{
		"vwr.assign", "vwr.challenge", "vwr.check", "vwr.status", "vwr.serving", "vwr.lobby",
		"vwr.shuffle", "vwr.shuffle.entries", "vwr.shuffle.proof", "vwr.shuffle.round", "vwr.shuffle.round.entries", "vwr.shuffle.round.proof",
		"VwrService.ListShuffles", "page.room", "page.health",
	}, served)

	all := newFixture(t).gateway.Routes()
	admin := w.session(alice, "admin").with("X-Queue-Entry-Token", w.entryToken(calm, alice))
	for _, r := range all {
		if slices.Contains(served, r.ID) {
			continue
		}
		target := strings.NewReplacer("{event_id}", calm, "{", "", "}", "").Replace(r.Pattern)
		rec := w.do(r.Method, target, "", admin)
		require.Equal(t, http.StatusNotFound, rec.Code, "%s %s", r, target)
	}
	require.Greater(t, len(all), 100)
	require.Empty(t, w.serviceCalls())
}

// A visitor goes through a waiting room whose pods are rooms.
func TestRoomServesVisitors(t *testing.T) {
	t.Parallel()
	w := asRoom(t)
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr/busy", "", nil).Code)
	rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	visitor := credentials{"Cookie": "urr-anon=" + cookieOf(rec, "urr-anon").Value}
	id := w.vwr.of("Assign")[0].caller.GetAnonId()
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", visitor).Code)

	waits := visitor.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000))
	require.InDelta(t, 3900, jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", waits))["ahead"], 0)
	require.Empty(t, w.vwr.of("Check"), "it is answered from memory")
	served := visitor.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 7))
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", served).Code)
	require.Equal(t, id, w.vwr.of("Check")[0].caller.GetAnonId())
}

// A room knows sessions by their tags: not by their signatures, which it could not check, and not
// with their roles.
func TestRoomKnowsSessionsByTheirTags(t *testing.T) {
	t.Parallel()
	w := asRoom(t)
	shop, err := identity.New(identity.Keys{Session: w.sessions, Visitor: w.visitors}, 10, w.gateway.Revoked, w.now)
	require.NoError(t, err)
	tok, err := shop.SignSession(claims.NewSession(alice, []string{"admin"}, w.now(), w.now().Add(w.cfg.SessionLife)))
	require.NoError(t, err)
	signed, _, err := claims.UntagSession(w.visitors.Derive(claims.LabelSession), tok)
	require.NoError(t, err)
	join := func(tok string) int {
		return w.do(http.MethodPost, "/vwr-api/vwr/lobby/"+lobbied, "", credentials{"Authorization": "Bearer " + tok}).Code
	}
	require.Equal(t, http.StatusUnauthorized, join(signed), "a session without a tag")
	require.Equal(t, http.StatusUnauthorized, join(claims.TagSession(w.sessions.Derive(claims.LabelSession), signed)), "a tag by another key")
	require.Equal(t, http.StatusOK, join(tok))
	require.Equal(t, alice, w.vwr.of("Join")[0].caller.GetUserId())
	require.Empty(t, w.vwr.of("Join")[0].caller.GetRoles())

	// What can be made with a room's secrets is no session at the shop, nor any of the other tokens.
	mallorys, err := w.visitors.Sign(claims.NewSession(mallory, []string{"admin"}, w.now(), w.now().Add(w.cfg.SessionLife)))
	require.NoError(t, err)
	forged := claims.TagSession(w.visitors.Derive(claims.LabelSession), mallorys)
	require.Equal(t, http.StatusOK, join(forged), "at a room, where it is worth a position")
	for _, tok := range []string{mallorys, forged} {
		_, err = shop.Session(http.Header{"Authorization": {"Bearer " + tok}})
		require.Error(t, err)
	}
	_, err = shop.Session(http.Header{"Authorization": {"Bearer " + signed}})
	require.NoError(t, err, "sessions of before have no tag")
}

// The user of Redis that the README gives to rooms suffices for all that they do there, and reaches
// nothing else.
func TestRoomsUserOfRedis(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	rules := strings.Fields(strings.ReplaceAll(regexp.MustCompile("(?s)\nACL SETUSER room (.*?)\n```").FindStringSubmatch(string(readme))[1], "\\\n", ""))
	admin, name := redistest.Open(t), "room-"+uuid.NewString()
	setUser := []any{"ACL", "SETUSER", name}
	for _, rule := range rules {
		setUser = append(setUser, rule)
	}
	require.NoError(t, admin.Do(t.Context(), setUser...).Err())
	t.Cleanup(func() { require.NoError(t, admin.Do(context.Background(), "ACL", "DELUSER", name).Err()) })
	rdb, err := pkgredis.Open(t.Context(), pkgredis.Config{Addrs: []string{backendtest.Redis(t)}, Username: name, Password: "password", PoolSize: 2})
	require.NoError(t, err)
	defer rdb.Close()

	sessions := revoked.New(rdb, revoked.Key, time.Hour, time.Now)
	sessions.ReadOnly = true
	require.NoError(t, sessions.Read(t.Context()))
	const script = "redis.call('TIME') redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], '1', 'PX', 1000)"
	require.NoError(t, rdb.Eval(t.Context(), script, []string{"limit:{0}:" + name}).Err())
	for _, key := range []string{"proof:" + name, "captcha:" + name} {
		require.NoError(t, rdb.SetArgs(t.Context(), key, 1, redis.SetArgs{Mode: "NX", TTL: time.Second}).Err())
		require.NoError(t, rdb.Exists(t.Context(), key).Err())
	}
	require.NoError(t, rdb.Info(t.Context(), "memory").Err())

	for _, refused := range [][]any{
		{"XADD", "{audit}:waiting", "*", "event", "{}"}, {"ZADD", revoked.Key, 1, "u:alice"}, {"SET", "sign-in:x", 1}, {"GET", "line:x"},
		{"EVAL", script, 1, "line:x"}, {"KEYS", "*"}, {"FLUSHALL"}, {"CONFIG", "GET", "*"}, {"CLIENT", "KILL", "ID", 0}, {"SCRIPT", "FLUSH"}, {"ACL", "LIST"},
	} {
		require.ErrorContains(t, rdb.Do(t.Context(), refused...).Err(), "permissions", "%v", refused)
	}
}

// A room needs none of the shop's secrets, and no address of its services, of Kafka or of an
// identity provider.
func TestRoomConfig(t *testing.T) {
	t.Parallel()
	least := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "REDIS_ADDRS": "127.0.0.1:16379", "VISITOR_SECRET": visitorSecret, "VWR_TICKET_SECRET": ticketSecret,
		"VWR_ADDR": "127.0.0.1:1", "VWR_RPC_KEY": sessionSecret, "QUEUE_ADDR": "127.0.0.1:1", "QUEUE_RPC_KEY": sessionSecret,
		"RPC_PLAIN": "development",
	}
	_, err := config.LoadFrom[app.RoomConfig](t.Context(), least)
	require.NoError(t, err)
	for _, name := range []string{"HTTP_ADDR", "REDIS_ADDRS", "VISITOR_SECRET", "VWR_TICKET_SECRET", "QUEUE_ADDR", "QUEUE_RPC_KEY"} {
		without := maps.Clone(least)
		delete(without, name)
		_, err := config.LoadFrom[app.RoomConfig](t.Context(), without)
		require.ErrorContains(t, err, name)
	}
	require.ElementsMatch(t, []string{
		"CAPTCHA_SECRET", "CLOUDFRONT_SECRET", "VISITOR_SECRET", "VWR_TICKET_SECRET", "VWR_RPC_KEY", "QUEUE_RPC_KEY", "RPC_TLS", "REDIS_PASSWORD",
	}, config.Secrets[app.RoomConfig]())
}
