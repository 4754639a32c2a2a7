package rpc

import (
	"strconv"
	"time"

	"urr.guru/pkg/config"
)

// Check is what a server does with a request before the handler sees it. No method of today lets in another service than the gateway and
// has a Caller, so this cannot be reached by a call.
var Check = check

// Sign is the value of the metadata key urr-auth.
func Sign(key config.Secret, caller, callee, method string, at time.Time) string {
	return "v1 " + caller + " " + strconv.FormatInt(at.Unix(), 10) + " " + signature([]byte(key), caller, callee, method, at.Unix())
}
