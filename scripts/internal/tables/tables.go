// Package tables reaches the tables of services that run on DynamoDB Local.
package tables

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/scripts/platform"
)

// Open returns a DynamoDB client with the access key and region of the services, since DynamoDB
// Local keeps separate tables for each of them.
func Open(w platform.Wiring) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: w.AWSRegion, BaseEndpoint: aws.String(w.DynamoDBEndpoint),
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		// DynamoDB Local sends a checksum of 0 with every error.
		DisableValidateResponseChecksum: true,
	})
}
