package dynamo

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

// claimsTimeout is the time limit of one write of claims.
const claimsTimeout = 3 * time.Second

// addClaims adds claimed positions to a stored set, and returns how many of them were new.
func (s *Store) addClaims(ctx context.Context, key dynamo.Item, claims []positionClaim) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	positions := make([]int64, len(claims))
	for i, cl := range claims {
		positions[i] = cl.position
	}
	slices.Sort(positions)
	positions = slices.Compact(positions) // DynamoDB rejects a set with duplicates
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.positions,
		Key:                       key,
		UpdateExpression:          aws.String("ADD #claims :positions SET #ttl = :ttl"),
		ExpressionAttributeNames:  map[string]string{"#claims": attrClaimSet, "#ttl": attrTTL},
		ExpressionAttributeValues: dynamo.Item{":positions": numbers(positions), ":ttl": dynamo.Number(s.now().Add(positionTTL).Unix())},
		ReturnValues:              types.ReturnValueUpdatedOld,
	}, dynamo.NoRetry)
	if err != nil {
		return 0, toUnavailable(err)
	}
	added := int64(len(positions))
	if old, ok := out.Attributes[attrClaimSet].(*types.AttributeValueMemberNS); ok {
		for _, p := range positions {
			if slices.Contains(old.Value, strconv.FormatInt(p, 10)) {
				added--
			}
		}
	}
	return added, nil
}

// addClaimCount adds n to the claim count of a round and returns the new count. It does not retry.
func (s *Store) addClaimCount(ctx context.Context, k roundKey, n int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.positions,
		Key:                       claimCountKey(k),
		UpdateExpression:          aws.String("ADD " + attrClaimed + " :n SET #ttl = :ttl"),
		ExpressionAttributeNames:  map[string]string{"#ttl": attrTTL},
		ExpressionAttributeValues: dynamo.Item{":n": dynamo.Number(n), ":ttl": dynamo.Number(s.now().Add(positionTTL).Unix())},
		ReturnValues:              types.ReturnValueUpdatedNew,
	}, dynamo.NoRetry)
	if err != nil {
		return 0, toUnavailable(err)
	}
	r := dynamo.Reader{Item: out.Attributes}
	count := r.Number(attrClaimed)
	return count, toUnavailable(r.Err())
}

func (s *Store) ClaimCount(ctx context.Context, eventID string, round room.Round) (int64, error) {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.positions, Key: claimCountKey(roundKey{eventID, round}), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return 0, toUnavailable(err)
	}
	r := dynamo.Reader{Item: out.Item}
	count := r.Number(attrClaimed)
	return count, toUnavailable(r.Err())
}
