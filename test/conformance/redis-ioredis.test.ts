import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { redisSubject } from '../support/conformance/redis-subject.ts';

describeConformance('Redis under ioredis', redisSubject('ioredis'));
