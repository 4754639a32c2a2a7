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

// requestIDMeta is the metadata key of the gateway's request id.
const requestIDMeta = "x-request-id"

// pushback is the trailer that tells grpc when to retry, in ms (gRFC A6); negative: never.
const pushback = "grpc-retry-pushback-ms"

// DefaultDeadline is the deadline of a unary call whose caller set none.
const DefaultDeadline = 5 * time.Second

// interceptUnary handles every unary call: it checks the caller, deadline and request, runs the
// handler, and then records, logs and translates the error.
func (s *Server) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	if isPublic(serviceName(info.FullMethod)) {
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
			resp, err = handleUnary(ctx, req, handler)
		}
	}
	e := s.finishCall(ctx, info.FullMethod, peer, start, err)
	if e == nil {
		return resp, nil
	}
	if e.Kind == errs.Unavailable && e.RetryAfter > 0 {
		// The error has a retry time, which RetryInfo tells the client. A pushback of -1 stops gRPC's
		// own retries: these come at once, and would only add load.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.Itoa(-1)))
	}
	return nil, errs.ToStatus(e)
}

// interceptStream checks and handles streams. They have no default deadline: they live as long as
// their watchers.
func (s *Server) interceptStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	start := time.Now()
	if isPublic(serviceName(info.FullMethod)) {
		live, cancel := context.WithCancel(ss.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)() // otherwise a client that watches health would delay the stop
		return handler(srv, &liveStream{ss, live})
	}
	ctx := withRequestID(ss.Context())
	peer, err := s.admitCaller(ctx, info.FullMethod)
	if err == nil {
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		err = handleStream(srv, &checkedStream{liveStream{ss, live}, peer}, handler)
		if s.stopping.Err() != nil && ctx.Err() == nil && live.Err() != nil {
			err = errs.ErrUnavailable.Wrap(errors.New("the server is stopping"))
		}
	}
	return errs.ToStatus(asError(s.finishCall(ctx, info.FullMethod, peer, start, err)))
}

// asError converts to error so that a nil *errs.Error becomes a nil error.
func asError(e *errs.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// admitCaller returns the verified name of the calling service and checks that it may call the
// method. The log gets the reason of a refusal, the caller does not.
func (s *Server) admitCaller(ctx context.Context, method string) (string, error) {
	allowed, ok := s.access[method]
	if !ok {
		return "", errs.ErrCallerRefused.Wrap(fmt.Errorf("method %s is not declared", method))
	}
	peer, err := s.verifier.verifyCaller(ctx, method)
	if err == nil && s.identity.hasCertificate() {
		err = requireCertifiedAs(ctx, peer)
	}
	if err != nil {
		return "", errs.ErrCallerRefused.Wrap(err)
	}
	if slices.Contains(allowed, peer) {
		return peer, nil
	}
	return peer, errs.ErrCallerRefused.Wrap(fmt.Errorf("%s may not call %s", peer, method))
}

// Prevalidator is implemented by services that check requests faster than Validate, which uses
// reflection. If Valid returns false, Validate checks the request.
type Prevalidator interface{ Valid(m proto.Message) bool }

// checkRequest refuses an invalid message, or one with a Caller that no gateway has set.
func checkRequest(req any, peer string) error { return checkRequestFor(nil, req, peer) }

// checkRequestFor is like checkRequest, for a service that may be a Prevalidator.
func checkRequestFor(service, req any, peer string) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if peer != Gateway && peer != Room && callers.Find(m) != "" {
		return errs.ErrCallerRefused.Wrap(fmt.Errorf("a Caller from %s: only the %s's is believed", peer, Gateway))
	}
	if p, ok := service.(Prevalidator); ok && p.Valid(m) {
		return nil
	}
	return Validate(m)
}

// finishCall records a call's duration and logs its failure. No other function logs failures.
func (s *Server) finishCall(ctx context.Context, method, peer string, start time.Time, err error) *errs.Error {
	e := errs.From(err)
	observeServer(method, start, e)
	if e == nil {
		return nil
	}
	if e.Reason == errs.ErrCallerRefused.Reason {
		refusedCallers.WithLabelValues(method, s.verifier.claimedCaller(ctx)).Inc()
	}
	level := slog.LevelError
	if e.Kind.CausedByClient() {
		level = slog.LevelWarn
	}
	s.failures.logFailure(ctx, level, method, peer, start, e)
	return e
}

func handleUnary(ctx context.Context, req any, handler grpc.UnaryHandler) (resp any, err error) {
	defer recoverPanic(&err)
	return handler(ctx, req)
}

func handleStream(srv any, ss grpc.ServerStream, handler grpc.StreamHandler) (err error) {
	defer recoverPanic(&err)
	return handler(srv, ss)
}

// recoverPanic turns a panic of a handler into INTERNAL: the call fails, the process goes on.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = errs.FromPanic(p)
	}
}

// liveStream is a stream whose context also ends when the server stops.
type liveStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // returned by Context
}

func (s *liveStream) Context() context.Context { return s.ctx }

// checkedStream is a stream that validates each message received.
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
