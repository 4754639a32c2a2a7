package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/scripts/internal/tables"
	"urr.guru/scripts/platform"
)

// namespace has the names of the databases, the Redis database and the prefixes of one run on the
// checkout's backends, so that several runs and `make up` can share the servers.
type namespace struct {
	checkout platform.Layout
	postgres int // base port of the server with its databases
	number   int
	family   string // prefix of the names of all runs with this number
	name     string // prefix of the names of this run
}

// openNamespace creates the databases of the run with this number, on the PostgreSQL server with
// the base port postgres. It first removes what a killed run with the same number has left.
func openNamespace(ctx context.Context, checkout platform.Layout, postgres, number int) (*namespace, error) {
	family := "run" + strconv.Itoa(number) + "x"
	r := &namespace{
		checkout: checkout, postgres: postgres, number: number,
		family: family, name: family + strings.ToLower(rand.Text()[:6]),
	}
	if err := r.removeData(ctx); err != nil {
		return nil, err
	}
	err := r.onPostgres(ctx, func(conn *pgx.Conn) error {
		for _, database := range platform.Databases() {
			if _, err := conn.Exec(ctx, "CREATE DATABASE "+r.database(database)); err != nil {
				return fmt.Errorf("create a database of the run: %w", err)
			}
		}
		return nil
	})
	return r, err
}

// database returns this run's name for the database that `make up` calls name.
func (r *namespace) database(name string) string { return r.name + "_" + name }

func (r *namespace) databaseURL(name string) string { return r.checkout.ServerURL(r.postgres, name) }

// fillWiring sets the addresses and prefixes of this namespace in w.
func (r *namespace) fillWiring(w *platform.Wiring) {
	shared := r.checkout.Wiring(w.Secrets)
	w.DatabaseURL = func(s platform.Service) string { return r.databaseURL(r.database(s.Database)) }
	w.RedisAddrs, w.RedisDB = shared.RedisAddrs, r.number
	w.KafkaBrokers, w.KafkaPrefix = shared.KafkaBrokers, r.name+"."
	w.DynamoDBEndpoint, w.DynamoDBPrefix = shared.DynamoDBEndpoint, r.name
	w.SQSEndpoint, w.RequestsQueue = shared.SQSEndpoint, r.name+"-requests"
}

// removeData removes the data of this run, and of killed runs that had the same number.
func (r *namespace) removeData(ctx context.Context) error {
	err := errors.Join(r.sweepPostgres(ctx), r.sweepRedis(ctx), r.sweepKafka(ctx), r.sweepDynamoDB(ctx), r.sweepSQS(ctx))
	if err != nil {
		return fmt.Errorf("remove what the run %s stored: %w", r.family, err)
	}
	return nil
}

func (r *namespace) onPostgres(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, r.databaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

func (r *namespace) sweepPostgres(ctx context.Context) error {
	return r.onPostgres(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", r.family) // CollectRows returns the error
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *namespace) sweepRedis(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: r.checkout.RedisAddr(), DB: r.number})
	return errors.Join(client.FlushDB(ctx).Err(), client.Close())
}

func (r *namespace) sweepKafka(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.checkout.KafkaBroker()))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	if names := r.ownNames(topics.Names()); len(names) > 0 {
		if _, err := admin.DeleteTopics(ctx, names...); err != nil {
			return fmt.Errorf("delete topics: %w", err)
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	if names := r.ownNames(groups.Groups()); len(names) > 0 {
		if _, err := admin.DeleteGroups(ctx, names...); err != nil {
			return fmt.Errorf("delete groups: %w", err)
		}
	}
	return nil
}

func (r *namespace) sweepDynamoDB(ctx context.Context) error {
	client := tables.Open(r.checkout.Wiring(platform.Secrets{}))
	pages := dynamodb.NewListTablesPaginator(client, &dynamodb.ListTablesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list tables: %w", err)
		}
		for _, name := range r.ownNames(page.TableNames) {
			if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				return fmt.Errorf("delete table %s: %w", name, err)
			}
		}
	}
	return nil
}

func (r *namespace) sweepSQS(ctx context.Context) error {
	client := sqs.New(sqs.Options{
		Region: "local", BaseEndpoint: aws.String(r.checkout.SQSEndpoint()),
		Credentials: credentials.NewStaticCredentialsProvider("development", "development", ""),
	})
	queues, err := client.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &r.family})
	if err != nil {
		return fmt.Errorf("list queues: %w", err)
	}
	for _, url := range queues.QueueUrls {
		if _, err := client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			return fmt.Errorf("delete queue %s: %w", url, err)
		}
	}
	return nil
}

// ownNames filters names: it returns those that runs with this number have created.
func (r *namespace) ownNames(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, r.family) })
}
