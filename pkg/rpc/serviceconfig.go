package rpc

import (
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// connectParams keep the pauses between attempts to connect short: a restart takes only seconds.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 3 * time.Second,
}

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

type retryPolicy struct {
	MaxAttempts          int      `json:"maxAttempts"`
	InitialBackoff       string   `json:"initialBackoff"`
	MaxBackoff           string   `json:"maxBackoff"`
	BackoffMultiplier    float64  `json:"backoffMultiplier"`
	RetryableStatusCodes []string `json:"retryableStatusCodes"`
}

type methodConfig struct {
	Name  []methodName `json:"name"`
	Retry retryPolicy  `json:"retryPolicy"`
}

// serviceConfig balances calls over the replicas that report SERVING and retries UNAVAILABLE, with
// the jitter of grpc, for the methods of the package urr.<callee>.v1 that declare themselves
// idempotent. The retry throttle of grpc limits the retries: it starts with 20 tokens, a failure
// takes 1, a success gives back 0.1, and with at most half of the tokens there are no retries. So
// an outage adds at most about one call in ten.
func serviceConfig(callee string) string {
	cfg := map[string]any{
		"loadBalancingConfig": []any{map[string]any{balancing: map[string]any{}}},
		"healthCheckConfig":   map[string]any{"serviceName": servingHealth},
		"retryThrottling":     map[string]any{"maxTokens": 20, "tokenRatio": 0.1},
	}
	if names := idempotentMethods(protoreflect.FullName("urr." + callee + ".v1")); len(names) > 0 {
		cfg["methodConfig"] = []methodConfig{{Name: names, Retry: retryPolicy{
			MaxAttempts: 3, InitialBackoff: "0.05s", MaxBackoff: "0.5s", BackoffMultiplier: 2,
			RetryableStatusCodes: []string{"UNAVAILABLE"},
		}}}
	}
	b, err := json.Marshal(cfg)
	if err != nil { // never: all its parts can be marshalled
		panic("rpc: service config: " + err.Error())
	}
	return string(b)
}

func idempotentMethods(pkg protoreflect.FullName) []methodName {
	var names []methodName
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			for j := range sd.Methods().Len() {
				if md := sd.Methods().Get(j); isIdempotent(md) {
					names = append(names, methodName{Service: string(sd.FullName()), Method: string(md.Name())})
				}
			}
		}
		return true
	})
	return names
}
