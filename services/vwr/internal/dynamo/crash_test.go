package dynamo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/waittest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// Where a replica that dies in the middle of a group finds its tables.
const (
	crashEndpoint = "VWR_TEST_CRASH_ENDPOINT"
	crashPrefix   = "VWR_TEST_CRASH_PREFIX"
)

const crashEvent, crashVisitors, crashAtPut = "crash", 20, 7

func TestMain(m *testing.M) { processtest.Main(m, dieInAGroup) }

// dieInAGroup lets visitors come at once and kills its process when the records begin to be written: the counter has moved by then.
func dieInAGroup() int {
	cfg := pkgdynamo.Config{Region: "local", Endpoint: os.Getenv(crashEndpoint), Prefix: os.Getenv(crashPrefix)}
	db, err := pkgdynamo.Open(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	var puts, answered atomic.Int64
	settled := make(chan struct{})
	s := dynamo.New(awsdynamo.New(db.Options(), tap{
		before: func(in any) error {
			if isPut(in) && puts.Add(1) >= crashAtPut {
				<-settled // what is still on its way would be stored after the parent has looked
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		},
		after: func(in, _ any) error {
			if isPut(in) && answered.Add(1) == crashAtPut-1 {
				close(settled)
			}
			return nil
		},
	}.options), cfg, 1, time.Now)
	c, _, err := s.Read(context.Background(), crashEvent)
	if err != nil {
		panic(err)
	}
	var work sync.WaitGroup
	for i := range crashVisitors {
		work.Go(func() {
			_, _ = s.Take(context.Background(), crashEvent, c.Round, fmt.Sprint(i), []uuid.UUID{visitorID(i)})
		})
	}
	work.Wait()
	return 0 // not killed: the parent tells
}

func visitorID(i int) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)) }

// find reads a visitor's record. A read that a busy machine does not answer in time is repeated.
func find(t *testing.T, s *dynamo.Store, visitor int) (r room.Record, found bool) {
	t.Helper()
	waittest.NoError(t, func() (err error) {
		r, found, err = s.Find(t.Context(), crashEvent, visitorID(visitor))
		return err
	}, "the record of visitor %d", visitor)
	return r, found
}

// A replica killed between the counter's write and the records' leaves gaps and nothing else: what is stored keeps its position, the
// others get new ones behind every position given out before.
func TestKilledReplicaLeavesGaps(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg))
	s := dynamo.New(db, cfg, 1, time.Now)
	c := roomtest.Open(t, s, crashEvent, room.DefaultSettings())

	out, err := processtest.Run(t, map[string]string{crashEndpoint: cfg.Endpoint, crashPrefix: cfg.Prefix})
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, out)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), out)

	before := roomtest.Read(t, s, crashEvent).Issued
	stored := make(map[int]room.Record)
	for i := range crashVisitors {
		if r, found := find(t, s, i); found {
			stored[i] = r
		}
	}
	require.Less(t, len(stored), crashVisitors, "the replica died too late to prove anything")
	require.Greater(t, before, int64(len(stored)), "the replica died too late to prove anything")
	seen := make(map[int64]bool)
	for i := range crashVisitors {
		r, err := s.Take(t.Context(), crashEvent, c.Round, fmt.Sprint(i), []uuid.UUID{visitorID(i)})
		require.NoError(t, err)
		if old, ok := stored[i]; ok {
			require.Equal(t, old, r, "visitor %d", i)
		} else {
			require.Greater(t, r.Position, before, "visitor %d", i)
		}
		require.False(t, seen[r.Position], "position %d twice", r.Position)
		seen[r.Position] = true
	}
}
