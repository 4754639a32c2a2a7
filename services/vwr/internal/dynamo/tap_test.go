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

// tap lets a test see, hold, change or lose what a store sends, attempt by attempt, as the SDK may send a call more than once.
type tap struct {
	// before runs ahead of an attempt; its error is the attempt's, and nothing is sent.
	before func(in any) error
	// after runs when DynamoDB has answered; it may change the answer, and its error is the attempt's: the answer is lost.
	after func(in, out any) error
	// answer stands in for DynamoDB where it does not return nil.
	answer func(in any) any
}

// errCut is how a lost connection looks: the SDK sends such a call again, unless it is told not to.
var errCut error = &smithyhttp.RequestSendError{Err: errors.New("connection reset by peer")}

type tappedInput struct{}

// options also shorten the SDK's pauses between attempts, and lift the time limits of calls: a busy
// machine makes a test slow, not red.
func (p tap) options(o *awsdynamo.Options) {
	if o.Retryer != nil {
		o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Millisecond)
	}
	o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
		return errors.Join(
			s.Initialize.Add(middleware.InitializeMiddlewareFunc("tap input", p.note), middleware.Before),
			s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tap", p.attempt), middleware.Before))
	})
}

func (tap) note(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	return next.HandleInitialize(middleware.WithStackValue(context.WithoutCancel(ctx), tappedInput{}, in.Parameters), in)
}

func (p tap) attempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
) {
	input := middleware.GetStackValue(ctx, tappedInput{})
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

// gate holds whoever passes until it is opened.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{reached: make(chan struct{}, 1), open: make(chan struct{})} }

func (g *gate) pass() {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
}

// await returns when somebody stands before the gate.
func (g *gate) await(t *testing.T) {
	t.Helper()
	waittest.Receive(t, g.reached, "somebody at the gate")
}

func isPut(in any) bool { _, ok := in.(*awsdynamo.PutItemInput); return ok }

func isUpdate(in any) bool { _, ok := in.(*awsdynamo.UpdateItemInput); return ok }
