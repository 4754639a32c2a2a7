// Package caller sets the field `caller` of requests to the services: the identity that package
// edge has verified, or none. No other code of the gateway sets it.
package caller

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

type contextKey struct{}

type callerValue struct {
	caller *commonv1.Caller
	rpc    string // the only method that may be called; "" = any
}

// With returns a context in which calls to services are made on behalf of c.
func With(ctx context.Context, c *commonv1.Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, callerValue{caller: c})
}

// WithOnly returns a context in which only one RPC can be called on behalf of c: that of the route
// which package edge has checked. The call fails if the router of pass-through routes has matched
// another route.
func WithOnly(ctx context.Context, c *commonv1.Caller, rpc string) context.Context {
	return context.WithValue(ctx, contextKey{}, callerValue{caller: c, rpc: rpc})
}

// SetCallerInterceptor is the gRPC client interceptor that sets the caller in every request.
func SetCallerInterceptor(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	v, _ := ctx.Value(contextKey{}).(callerValue)
	if v.rpc != "" && v.rpc != method {
		return errs.ErrInternal.Wrap(fmt.Errorf("the route leads to %s, the router to %s", v.rpc, method))
	}
	if m, ok := req.(proto.Message); ok {
		setCallerMember(m.ProtoReflect(), v.caller)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// setCallerMember sets the field caller of the message itself. The items of a batch have callers of
// their own, which were set when the items were added.
func setCallerMember(m protoreflect.Message, c *commonv1.Caller) {
	fd := m.Descriptor().Fields().ByName("caller")
	if fd == nil || fd.Message() == nil || fd.Message().FullName() != c.ProtoReflect().Descriptor().FullName() {
		return
	}
	if c == nil {
		m.Clear(fd)
		return
	}
	m.Set(fd, protoreflect.ValueOfMessage(c.ProtoReflect()))
}
