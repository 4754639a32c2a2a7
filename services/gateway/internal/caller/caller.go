// Package caller sets the member `caller` of requests to the services: the identity that the edge
// has verified, or none. Nothing else writes it.
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

type key struct{}

type value struct {
	caller *commonv1.Caller
	rpc    string // the only method that may be called; "" = any
}

// With returns a context whose calls are made on behalf of c.
func With(ctx context.Context, c *commonv1.Caller) context.Context {
	return context.WithValue(ctx, key{}, value{caller: c})
}

// WithOnly is With for a single RPC, that of the checked route. If the router of the pass-through
// reads a path differently from the edge, the call fails instead of bypassing the checks of another
// route.
func WithOnly(ctx context.Context, c *commonv1.Caller, rpc string) context.Context {
	return context.WithValue(ctx, key{}, value{caller: c, rpc: rpc})
}

// SetCallerInterceptor is the client interceptor that sets the Caller.
func SetCallerInterceptor(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	v, _ := ctx.Value(key{}).(value)
	if v.rpc != "" && v.rpc != method {
		return errs.ErrInternal.Wrap(fmt.Errorf("the route leads to %s, the router to %s", v.rpc, method))
	}
	if m, ok := req.(proto.Message); ok {
		setCallerMember(m.ProtoReflect(), v.caller)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// setCallerMember sets the caller of the message itself. Each item of a batch has its own, which
// was set when the item was added.
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
