// Package dynamo opens DynamoDB clients, creates tables, and helps to read and write items.
package dynamo

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/internal/awsconf"
)

// Config holds the address of DynamoDB and the settings of tables.
type Config struct {
	// Region is the AWS region.
	Region string `env:"AWS_REGION, default=ap-northeast-2"`
	// Endpoint is the URL of a local substitute; empty = AWS, with the process's own credentials.
	Endpoint string `env:"DYNAMODB_ENDPOINT"`
	// Prefix is the prefix of every table name, so that several installations may share an account.
	Prefix string `env:"DYNAMODB_PREFIX, default=urr"`
	// PITR enables point-in-time recovery for new tables.
	PITR bool `env:"DYNAMODB_PITR"`
}

func (c Config) Table(name string) string { return c.Prefix + "-" + name }

// Open makes a DynamoDB client. The SDK repeats failed calls up to twice within the caller's
// deadline. A call that must not take effect twice, such as ADD, needs the option NoRetry.
func Open(ctx context.Context, cfg Config) (*dynamodb.Client, error) {
	ac, err := awsconf.Load(ctx, cfg.Region, cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	return dynamodb.NewFromConfig(ac, func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(so *retry.StandardOptions) {
			so.MaxAttempts = 3
			so.MaxBackoff = 500 * time.Millisecond
		})
		o.APIOptions = append(o.APIOptions, watchClock, watchRefused)
		// DynamoDB Local sends a checksum of 0 with every error, failed conditions included.
		o.DisableValidateResponseChecksum = cfg.Endpoint != ""
	}), nil
}

// NoRetry is an option of a single call, which the SDK then sends only once.
func NoRetry(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// Err converts an error of the client. Throttling and an unavailable or failing DynamoDB become
// errs.ErrUnavailable, and so does a transaction that was cancelled only for lack of capacity.
// Other errors, such as failed conditions, are returned unchanged.
func Err(err error) error {
	var known *errs.Error
	if err == nil || errors.As(err, &known) || !unavailable(err) {
		return err
	}
	return errs.ErrUnavailable.Wrap(err)
}

func unavailable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if Throttled(err) {
		return true
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "InternalServerError", "ServiceUnavailable", "TransactionInProgressException", "LimitExceededException":
			return true
		}
		return api.ErrorFault() == smithy.FaultServer
	}
	var network net.Error
	var unsent *smithyhttp.RequestSendError // no response arrived, whatever the error of the transport is
	return errors.As(err, &network) || errors.As(err, &unsent) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ConditionFailed reports whether a single write failed because its condition did not hold. For
// transactions use Canceled.
func ConditionFailed(err error) bool {
	var failed *types.ConditionalCheckFailedException
	return errors.As(err, &failed)
}
