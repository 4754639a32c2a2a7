package rpc

import (
	"time"

	"google.golang.org/grpc/resolver/dns"
)

// resolveAgain is how soon after a look-up the next one may be.
const resolveAgain = time.Second

// ResolveOften lets clients look replicas up again a second after the last time; grpc's default is 30 s. A rollout replaces every replica
// within less: who looked them up at its beginning would be left with addresses none of which answers. Call it before anything dials;
// lifecycle.Main does.
func ResolveOften() { dns.SetMinResolutionInterval(resolveAgain) }
