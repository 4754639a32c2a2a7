package rpc

import (
	"context"
	"strconv"
	"time"

	"urr.guru/pkg/config"
)

// Check is what a server does with a request before the handler. No current method both accepts a
// service other than the gateway and has a Caller, so no call can reach its refusal.
var Check = checkRequest

// Sign returns the value of the metadata key urr-auth.
func Sign(key config.Secret, caller, callee, method string, at time.Time) string {
	return "v1 " + caller + " " + strconv.FormatInt(at.Unix(), 10) + " " + signature([]byte(key), caller, callee, method, at.Unix())
}

// WithLookup replaces DNS.
func WithLookup(lookup func(ctx context.Context, host string) ([]string, error)) DialOption {
	return func(c *dialConfig) { c.lookup = lookup }
}
