package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"

	"urr.guru/pkg/config"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/lifecycle"
	pkgrpc "urr.guru/pkg/rpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/queue"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/rpc"
)

// Run runs the service until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, "vwr", cfg.Config, log)
	if err != nil {
		return err
	}
	passes, err := pass.New(cfg.TokenSecret)
	if err != nil {
		return err
	}
	db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
	if err != nil {
		return fmt.Errorf("dynamodb: %w", err)
	}
	store := dynamo.New(db, cfg.Dynamo, cfg.RecordsPerWrite, failpoint.Now)
	a.OnClose("store", store.Close)
	entries := dynamo.NewLobbies(store)
	a.OnClose("lobby entries", entries.Close)
	claims := dynamo.NewClaims(store)
	loads, rekeyQueue, err := dialQueue(a, pkgrpc.Peer(cfg.Queue))
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
	lobbies := lobby.NewService(cache, store, entries.Lobby(), passes, keys, lobby.Schedule{Lead: cfg.LobbyLead}, beacons, failpoint.Now)
	driver := lobby.NewDriver(lobbies, entries.Lobby(), log)
	service := room.NewService(cache, store, store, passes, claims, lobbies, failpoint.Now, rand.Float64)
	admin := room.NewAdmin(cache, store, loads, lobbies, failpoint.Now)
	closer := room.NewCloser(cache, store, loads, log)

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
	// Claims stop after the servers, so that the claims of the last visitors are written.
	a.Go("claims", claims.Run)
	a.Go("advancer", advancer.Run)
	a.Go("closer", closer.Run)
	a.Go("lobbies", driver.Run)
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(
			rekeyLobbies(lobbies, next), passes.Rekey(next.TokenSecret), rekeyQueue(next.Queue.Key), server.Rekey(next.RPC.Accept))
	})
	a.Ready("counters", firstRead(cache))
	return a.Run(ctx)
}

// firstRead returns a check that succeeds once the active events were read. Later outages of the
// store do not make a replica unready: polls are served from the cache, and all replicas are
// affected.
func firstRead(cache *room.StateCache) func(context.Context) error {
	return func(context.Context) error {
		if !cache.Ready() {
			return errors.New("the active events have not been read yet")
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

// dialQueue connects to queue, unless it has no address. It also returns a function that replaces
// the key.
func dialQueue(a *lifecycle.App, peer pkgrpc.Peer) (*queue.Client, func(config.Secret) error, error) {
	if peer.Addr == "" {
		return queue.New(nil), func(config.Secret) error { return nil }, nil
	}
	conn, err := a.Dial("queue", peer, pkgrpc.WithBreaker())
	if err != nil {
		return nil, nil, err
	}
	return queue.New(conn), conn.Rekey, nil
}

// Migrate creates the tables.
func Migrate(ctx context.Context, cfg *Config, log *slog.Logger) error {
	db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
	if err != nil {
		return fmt.Errorf("dynamodb: %w", err)
	}
	if err := dynamo.Migrate(ctx, db, cfg.Dynamo); err != nil {
		return err
	}
	log.InfoContext(ctx, "tables are there", "prefix", cfg.Dynamo.Prefix)
	return nil
}
