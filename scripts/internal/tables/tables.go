// Package tables opens the services' tables in DynamoDB Local.
package tables

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/scripts/platform"
)

// Open returns a DynamoDB client with the region and access key of the services. DynamoDB Local has
// separate tables for each region and access key.
func Open(w platform.Wiring) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: w.AWSRegion, BaseEndpoint: aws.String(w.DynamoDBEndpoint),
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		// DynamoDB Local sends the checksum 0 with every error.
		DisableValidateResponseChecksum: true,
	})
}
