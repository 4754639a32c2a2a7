package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"

	"google.golang.org/grpc"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/lifecycle"
	pkgrpc "urr.guru/pkg/rpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/ingest"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/queue"
	"urr.guru/services/vwr/internal/reward"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/rpc"
)

// Run serves the waiting rooms of tier 1 until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, "vwr", cfg.Config, log)
	if err != nil {
		return err
	}
	passes, err := pass.New(cfg.TokenSecret, cfg.TicketSecret)
	if err != nil {
		return err
	}
	db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
	if err != nil {
		return fmt.Errorf("dynamodb: %w", err)
	}
	store := dynamo.New(db, cfg.Dynamo, failpoint.Now)
	a.OnClose("store", store.Close)
	entries := dynamo.NewLobbies(store)
	a.OnClose("lobby entries", entries.Close)
	claims := dynamo.NewClaims(store)
	loads, destinations, rekeyPeers, err := dialPeers(a, cfg)
	if err != nil {
		return err
	}

	cache := room.NewStateCache()
	advancer := room.NewAdvancer(cache, store, claims, loads, failpoint.Now, log)
	keys, err := cfg.lobbyKeys()
	if err != nil {
		return err
	}
	beacons, err := beacon.NewSources(cfg.BeaconURLs, http.DefaultClient)
	if err != nil {
		return err
	}
	lobbies := lobby.NewService(cache, store, entries.LobbyStore(), passes, keys, lobby.Schedule{Lead: cfg.LobbyLead}, beacons, failpoint.Now)
	driver := lobby.NewDriver(lobbies, entries.LobbyStore(), log)
	service := room.NewService(cache, store, store, passes, claims, lobbies, failpoint.Now, rand.Float64)
	admin := room.NewAdmin(cache, store, destinations, lobbies, failpoint.Now)
	closer := room.NewCloser(cache, store, destinations, log)

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	vwrv1.RegisterVwrServiceServer(server, rpc.NewVisitors(service, lobbies, cache, log))
	vwrv1.RegisterVwrAdminServiceServer(server, rpc.NewOperators(admin, lobbies))

	unregister, err := registerMetrics(cache, advancer, driver)
	if err != nil {
		return err
	}
	a.OnClose("metrics", unregister)
	// The claims worker stops after the servers, so that it writes the claims of the last visitors.
	a.Go("claims", claims.Run)
	a.Go("advancer", advancer.Run)
	a.Go("closer", closer.Run)
	a.Go("lobbies", driver.Run)
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(
			rekeyLobbies(lobbies, next), passes.Rekey(next.TokenSecret, next.TicketSecret), rekeyPeers(next), server.Rekey(next.RPC.Accept))
	})
	a.Ready("counters", countersReadCheck(cache))
	return a.Run(ctx)
}

// countersReadCheck returns a check that succeeds while the counters have just been read.
func countersReadCheck(cache *room.StateCache) func(context.Context) error {
	return func(context.Context) error {
		if cache.Stale() {
			return errors.New("the counters were not read in the last 2 s")
		}
		return nil
	}
}

func rekeyLobbies(s *lobby.Service, next *Config) error {
	keys, err := next.lobbyKeys()
	if err == nil {
		s.Rekey(keys)
	}
	return err
}

// dialPeers connects to the queue, ingest and reward services, where an address is configured.
// rekey replaces the RPC keys of these connections.
func dialPeers(a *lifecycle.App, cfg *Config) (loads *queue.Client, d room.Destinations, rekey func(*Config) error, err error) {
	loads, d = queue.New(nil), room.Destinations{}
	var rekeys []func(*Config) error
	for _, p := range []struct {
		name string
		peer func(*Config) pkgrpc.OptionalPeer
		use  func(grpc.ClientConnInterface)
	}{
		{"queue", func(c *Config) pkgrpc.OptionalPeer { return c.Queue }, func(conn grpc.ClientConnInterface) {
			loads = queue.New(conn)
			d[room.NextQueue] = loads
		}},
		{"ingest", func(c *Config) pkgrpc.OptionalPeer { return c.Ingest }, func(conn grpc.ClientConnInterface) { d[room.NextPromo] = ingest.New(conn) }},
		{"reward", func(c *Config) pkgrpc.OptionalPeer { return c.Reward }, func(conn grpc.ClientConnInterface) { d[room.NextReward] = reward.New(conn) }},
	} {
		if p.peer(cfg).Addr == "" {
			continue
		}
		conn, err := a.Dial(p.name, pkgrpc.Peer(p.peer(cfg)), pkgrpc.WithBreaker())
		if err != nil {
			return nil, nil, nil, err
		}
		p.use(conn)
		rekeys = append(rekeys, func(next *Config) error { return conn.Rekey(p.peer(next).Key) })
	}
	return loads, d, func(next *Config) error {
		var all []error
		for _, rekey := range rekeys {
			all = append(all, rekey(next))
		}
		return errors.Join(all...)
	}, nil
}
