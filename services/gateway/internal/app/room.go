package app

import (
	"context"
	"io"
	"strings"

	"urr.guru/pkg/config"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
)

// Room is the command room. It runs a gateway for the pods that face the crowd: it serves the routes
// of waiting rooms only, and has neither the keys of sessions and tokens nor those of the calls to
// the shop's services. It reads a RoomConfig.
func Room() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: "room", Unconfigured: true, Run: func(ctx context.Context, _ *Config, _ []string, out io.Writer) error {
		cfg, err := config.Load[RoomConfig](ctx)
		if err == nil && cfg.VWR.Addr == "" {
			err = config.Missing("VWR_ADDR", "a room without vwr has nothing to serve")
		}
		if err != nil {
			return &lifecycle.Exit{Code: 2, Err: err}
		}
		log, err := telemetry.NewLogger(out, rpc.Room, cfg.LogLevel)
		if err != nil {
			return &lifecycle.Exit{Code: 2, Err: err}
		}
		return runRoom(ctx, cfg, log)
	}}
}

// ofRooms reports whether a room serves a route: that of the waiting room's page and its calls, and
// the one that load balancers probe. All others belong to the shop, and to its pods.
func ofRooms(r *edge.Route) bool {
	return strings.HasPrefix(r.Pattern, "/vwr/") || strings.HasPrefix(r.Pattern, "/vwr-api/") || r.Pattern == "/health"
}
