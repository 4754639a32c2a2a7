package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"urr.guru/scripts/internal/derived"
)

// Grant allows the services' users what deploy/helm/kafka-acls.sh does, for topics and groups with a prefix.
func Grant(ctx context.Context, brokers []string, prefix string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("open kafka: %w", err)
	}
	defer client.Close()
	var errs []error
	for _, a := range derived.ACLs() {
		var operations []kadm.ACLOperation
		for _, name := range a.Operations {
			operation, err := kmsg.ParseACLOperation(name)
			operations, errs = append(operations, operation), append(errs, err)
		}
		names := make([]string, len(a.Topics))
		for i, topic := range a.Topics {
			names[i] = prefix + topic
		}
		acls := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:urr-" + a.Service).AllowHosts().
			Operations(operations...).Topics(names...)
		if a.Group != "" { // without a name it would be every group
			acls.Groups(prefix + a.Group)
		}
		results, err := kadm.NewClient(client).CreateACLs(ctx, acls)
		errs = append(errs, err)
		for _, r := range results {
			errs = append(errs, r.Err)
		}
	}
	return errors.Join(errs...)
}
