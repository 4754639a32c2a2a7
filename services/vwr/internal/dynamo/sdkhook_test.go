package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"urr.guru/pkg/waittest"
)

// sdkHook intercepts each attempt of the store's calls, so that a test can observe, block or change
// it, or lose its response. The SDK may make several attempts per call.
type sdkHook struct {
	// before runs before an attempt. If it fails, nothing is sent and the attempt fails with its
	// error.
	before func(in any) error
	// after runs when DynamoDB has answered. It may change the response. If it fails, the response
	// is lost and the attempt fails with its error.
	after func(in, out any) error
	// answer replaces DynamoDB's response unless it returns nil.
	answer func(in any) any
}

// errConnReset is the error of a lost connection. The SDK retries it unless retries are disabled.
var errConnReset error = &smithyhttp.RequestSendError{Err: errors.New("connection reset by peer")}

type inputKey struct{}

// options also shortens the SDK's backoff and removes the deadlines of calls, so that tests do not
// fail on a busy machine.
func (p sdkHook) options(o *awsdynamo.Options) {
	if o.Retryer != nil {
		o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Millisecond)
	}
	o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
		return errors.Join(
			s.Initialize.Add(middleware.InitializeMiddlewareFunc("sdkHook input", p.storeInput), middleware.Before),
			s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tap", p.attempt), middleware.Before))
	})
}

func (sdkHook) storeInput(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	return next.HandleInitialize(middleware.WithStackValue(context.WithoutCancel(ctx), inputKey{}, in.Parameters), in)
}

func (p sdkHook) attempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
) {
	input := middleware.GetStackValue(ctx, inputKey{})
	if p.before != nil {
		if err := p.before(input); err != nil {
			return middleware.DeserializeOutput{}, middleware.Metadata{}, err
		}
	}
	if p.answer != nil {
		if got := p.answer(input); got != nil {
			return middleware.DeserializeOutput{Result: got}, middleware.Metadata{}, nil
		}
	}
	out, meta, err := next.HandleDeserialize(ctx, in)
	if err == nil && p.after != nil {
		err = p.after(input, out.Result)
	}
	return out, meta, err
}

// gate blocks callers until it is opened.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{reached: make(chan struct{}, 1), open: make(chan struct{})} }

func (g *gate) block() {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
}

// awaitBlocked waits until a caller is blocked.
func (g *gate) awaitBlocked(t *testing.T) {
	t.Helper()
	waittest.Receive(t, g.reached, "somebody at the gate")
}

func isPut(in any) bool { _, ok := in.(*awsdynamo.PutItemInput); return ok }

func isUpdate(in any) bool { _, ok := in.(*awsdynamo.UpdateItemInput); return ok }
