// Package awsconf loads the configuration common to clients of AWS services.
package awsconf

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Load reads the AWS configuration from the environment. With an endpoint (a local substitute for
// AWS) it uses dummy credentials, so that real ones are neither needed nor sent there.
func Load(ctx context.Context, region, endpoint string) (aws.Config, error) {
	opts := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(region),
		awsconfig.WithHTTPClient(httpClient()),
	}
	if endpoint != "" {
		opts = append(opts,
			awsconfig.WithBaseEndpoint(endpoint),
			awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	cfg.APIOptions = append(cfg.APIOptions, traceCalls)
	return cfg, nil
}

// httpClient returns an HTTP client that keeps enough idle connections for parallel writes. With
// the SDK's default of 10 per host, connections would be reopened all the time.
func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithTransportOptions(func(tr *http.Transport) {
			tr.MaxIdleConns = 256
			tr.MaxIdleConnsPerHost = 256
			tr.IdleConnTimeout = 60 * time.Second
			tr.ResponseHeaderTimeout = 25 * time.Second // SQS long polls take up to 20 s
		})
}
