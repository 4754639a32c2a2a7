package rpc

import (
	"time"

	"google.golang.org/grpc/resolver/dns"
)

// minResolveInterval is the least time between two look-ups.
const minResolveInterval = time.Second

// SetResolveInterval lets clients look up replicas a second after the last look-up; the default of
// grpc is 30 s. A rollout replaces every replica within less: a client that looked them up at its
// start would be left with dead addresses only. It must be called before any Dial; lifecycle.Main does.
func SetResolveInterval() { dns.SetMinResolutionInterval(minResolveInterval) }
