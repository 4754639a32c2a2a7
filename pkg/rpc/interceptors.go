package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/internal/callers"
	"urr.guru/pkg/telemetry"
)

// requestIDMeta carries the request id of the gateway from service to service.
const requestIDMeta = "x-request-id"

// pushback tells the retries of grpc when to retry (gRFC A6); negative: never.
const pushback = "grpc-retry-pushback-ms"

// DefaultDeadline is the deadline of a unary call whose caller set none.
const DefaultDeadline = 5 * time.Second

// unary wraps every unary call: access, deadline and validation, then the handler, then metrics,
// log and translation of the error, each once.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	if isPublic(serviceOf(info.FullMethod)) {
		return handler(ctx, req)
	}
	ctx = withRequestID(ctx)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultDeadline)
		defer cancel()
	}
	peer, err := s.admitCaller(ctx, info.FullMethod)
	if err == nil {
		if err = checkRequestFor(info.Server, req, peer); err == nil {
			resp, err = guardUnary(ctx, req, handler)
		}
	}
	e := s.finishCall(ctx, info.FullMethod, peer, start, err)
	if e == nil {
		return resp, nil
	}
	if e.Kind == errs.Unavailable && e.RetryAfter > 0 {
		// The error says when to retry: an immediate retry would only add load. RetryInfo tells the
		// end client.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.Itoa(-1)))
	}
	return nil, errs.ToStatus(e)
}

// stream is unary for streams. A stream has no default deadline, since it lives as long as its
// watcher.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	start := time.Now()
	if isPublic(serviceOf(info.FullMethod)) {
		live, cancel := context.WithCancel(ss.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)() // a watch of health would delay the stop
		return handler(srv, &liveStream{ss, live})
	}
	ctx := withRequestID(ss.Context())
	peer, err := s.admitCaller(ctx, info.FullMethod)
	if err == nil {
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		err = guardStream(srv, &checkedStream{liveStream{ss, live}, peer}, handler)
		if s.stopping.Err() != nil && ctx.Err() == nil && live.Err() != nil {
			err = errs.ErrUnavailable.Wrap(errors.New("the server is stopping"))
		}
	}
	return errs.ToStatus(asError(s.finishCall(ctx, info.FullMethod, peer, start, err)))
}

// asError keeps a nil *errs.Error from becoming a non-nil error.
func asError(e *errs.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// admitCaller returns the caller and checks that the method allows it. Details go to the log, not
// to the caller.
func (s *Server) admitCaller(ctx context.Context, method string) (string, error) {
	allowed, ok := s.access[method]
	if !ok {
		return "", errs.ErrCallerRefused.Wrap(fmt.Errorf("method %s is not declared", method))
	}
	peer, err := s.verifier.verifyCaller(ctx, method)
	if err != nil {
		return "", errs.ErrCallerRefused.Wrap(err)
	}
	if slices.Contains(allowed, peer) {
		return peer, nil
	}
	return peer, errs.ErrCallerRefused.Wrap(fmt.Errorf("%s may not call %s", peer, method))
}

// Prevalidator is a service that recognizes valid requests without the reflection of Validate, which
// is slow for batches. Valid returns false for a request that Validate is to check.
type Prevalidator interface{ Valid(m proto.Message) bool }

// checkRequest refuses a request that is not valid, or has a Caller not set by the gateway.
func checkRequest(req any, peer string) error { return checkRequestFor(nil, req, peer) }

// checkRequestFor is checkRequest for a service that may be a Prevalidator.
func checkRequestFor(service, req any, peer string) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if peer != Gateway && callers.Find(m) != "" {
		return errs.ErrCallerRefused.Wrap(fmt.Errorf("a Caller from %s: only the %s's is believed", peer, Gateway))
	}
	if p, ok := service.(Prevalidator); ok && p.Valid(m) {
		return nil
	}
	return Validate(m)
}

// finishCall records a call's duration and logs its failure; no other function does.
func (s *Server) finishCall(ctx context.Context, method, peer string, start time.Time, err error) *errs.Error {
	e := errs.From(err)
	observeServer(method, start, e)
	if e == nil {
		return nil
	}
	level := slog.LevelError
	if e.Kind.Client() {
		level = slog.LevelWarn
	}
	s.failures.logFailure(ctx, level, method, peer, start, e)
	return e
}

func guardUnary(ctx context.Context, req any, handler grpc.UnaryHandler) (resp any, err error) {
	defer recoverPanic(&err)
	return handler(ctx, req)
}

func guardStream(srv any, ss grpc.ServerStream, handler grpc.StreamHandler) (err error) {
	defer recoverPanic(&err)
	return handler(srv, ss)
}

// recoverPanic turns a panic into INTERNAL: the call fails, the process goes on.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = errs.FromPanic(p)
	}
}

// liveStream is a stream whose context ends with the server.
type liveStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // returned by Context
}

func (s *liveStream) Context() context.Context { return s.ctx }

// checkedStream validates received messages.
type checkedStream struct {
	liveStream

	peer string
}

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkRequest(m, s.peer)
}

func withRequestID(ctx context.Context) context.Context {
	if v := metadata.ValueFromIncomingContext(ctx, requestIDMeta); len(v) == 1 && len(v[0]) <= 64 {
		return telemetry.WithRequestID(ctx, v[0])
	}
	return ctx
}
