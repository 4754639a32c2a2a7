package awsconf

import (
	"context"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traceCalls adds a client span for each call, not for each retry, but only in a recorded trace.
func traceCalls(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("URRTrace", traceCall), middleware.After)
}

func traceCall(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	out middleware.InitializeOutput, md middleware.Metadata, err error,
) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return next.HandleInitialize(ctx, in)
	}
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	ctx, span := otel.Tracer("urr.guru/pkg/aws").Start(ctx, service+"."+operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("rpc.system.name", "aws-api"), attribute.String("rpc.method", service+"/"+operation)))
	defer span.End()
	out, md, err = next.HandleInitialize(ctx, in)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
	return out, md, err
}
