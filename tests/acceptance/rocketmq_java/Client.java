import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * RocketMQ's official Java client, told what to do: one JSON object a line, the same as
 * ../rocketmq_python.py understands.
 */
public final class Client {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();
    private static final Pattern CODE = Pattern.compile("response-code=(\\d+)");
    private static final PrintStream OUT = System.out;

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Map<String, AutoCloseable> clients = new ConcurrentHashMap<>();
    private final Map<String, Transaction> transactions = new ConcurrentHashMap<>();
    private final Map<String, MessageView> messages = new ConcurrentHashMap<>();

    public static void main(String[] words) throws Exception {
        System.setProperty("user.home", System.getenv("HOME")); // where it logs
        Client session = new Client();
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject given = GSON.fromJson(line, JsonObject.class);
            workers.submit(() -> session.answer(given));
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(JsonObject given) {
        Map<String, Object> told = new HashMap<>();
        told.put("id", given.get("id").getAsInt());
        try {
            told.put("result", work(given.get("do").getAsString(), given));
        } catch (Throwable error) {
            told.put("error", failure(error));
        }
        tell(told);
    }

    private Object work(String what, JsonObject given) throws Throwable {
        switch (what) {
            case "producer":
                return keep(given, producer(given));
            case "simple":
                return keep(given, simple(given));
            case "push":
                return keep(given, push(given));
            case "send":
            case "send_async":
                return send(given);
            case "end":
                return end(given);
            case "recall":
                Producer recalling = (Producer) clients.get(text(given, "producer"));
                return recalling.recallMessage(text(given, "topic"), text(given, "handle"))
                    .getMessageId().toString();
            case "receive":
                return receive(given);
            case "ack":
                consumer(given).ack(messages.get(text(given, "receipt")));
                return null;
            case "hide":
                MessageView hidden = messages.get(text(given, "receipt"));
                consumer(given).changeInvisibleDuration(hidden, seconds(given, "hidden_s"));
                messages.put(receiptOf(hidden), hidden);
                return receiptOf(hidden);
            case "stop":
                clients.remove(text(given, "name")).close();
                return null;
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private Object keep(JsonObject given, AutoCloseable client) {
        clients.put(text(given, "name"), client);
        return null;
    }

    private Producer producer(JsonObject given) throws Exception {
        List<String> topics = new ArrayList<>();
        given.getAsJsonArray("topics").forEach(topic -> topics.add(topic.getAsString()));
        ProducerBuilder builder = provider.newProducerBuilder()
            .setClientConfiguration(configuration(given))
            .setTopics(topics.toArray(new String[0]));
        String answer = text(given, "answer");
        if (!answer.isEmpty()) {
            String name = text(given, "name");
            builder.setTransactionChecker(message -> {
                tell(Map.of("event", "checked", "producer", name, "message", shown(message)));
                return resolution(answer);
            });
        }
        return builder.build();
    }

    private SimpleConsumer simple(JsonObject given) throws Exception {
        return provider.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration(given))
            .setConsumerGroup(text(given, "group"))
            .setAwaitDuration(seconds(given, "wait_s"))
            .setSubscriptionExpressions(filters(given))
            .build();
    }

    private AutoCloseable push(JsonObject given) throws Exception {
        String name = text(given, "name");
        int fail = given.get("fail").getAsInt();
        return provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration(given))
            .setConsumerGroup(text(given, "group"))
            .setSubscriptionExpressions(filters(given))
            .setConsumptionThreadCount(4)
            .setMessageListener(message -> {
                boolean fails = fail < 0 || message.getDeliveryAttempt() <= fail;
                ConsumeResult result = fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                tell(Map.of("event", "consumed", "consumer", name, "message", shown(message),
                    "result", result.name()));
                return result;
            })
            .build();
    }

    private Map<String, Object> send(JsonObject given) throws Exception {
        Producer producer = (Producer) clients.get(text(given, "producer"));
        Message message = message(given);
        String name = text(given, "transaction");
        SendReceipt sent;
        if (name.isEmpty()) {
            sent = producer.send(message);
        } else {
            Transaction transaction = producer.beginTransaction();
            transactions.put(name, transaction);
            sent = producer.send(message, transaction);
        }
        Map<String, Object> receipt = new HashMap<>();
        receipt.put("message_id", sent.getMessageId().toString());
        receipt.put("transaction_id", inner(sent, "getTransactionId"));
        receipt.put("recall_handle", sent.getRecallHandle());
        receipt.put("offset", inner(sent, "getOffset"));
        return receipt;
    }

    private Object end(JsonObject given) throws Exception {
        Transaction transaction = transactions.remove(text(given, "transaction"));
        if (given.get("commit").getAsBoolean()) {
            transaction.commit();
        } else {
            transaction.rollback();
        }
        return null;
    }

    private List<Map<String, Object>> receive(JsonObject given) throws Exception {
        int count = given.get("count").getAsInt();
        List<Map<String, Object>> found = new ArrayList<>();
        for (MessageView message : consumer(given).receive(count, seconds(given, "hidden_s"))) {
            messages.put(receiptOf(message), message);
            found.add(shown(message));
        }
        return found;
    }

    private SimpleConsumer consumer(JsonObject given) {
        return (SimpleConsumer) clients.get(text(given, "consumer"));
    }

    private Message message(JsonObject given) {
        MessageBuilder builder = provider.newMessageBuilder()
            .setTopic(text(given, "topic"))
            .setBody(Base64.getDecoder().decode(text(given, "body")));
        if (!text(given, "tag").isEmpty()) {
            builder.setTag(text(given, "tag"));
        }
        if (!text(given, "group").isEmpty()) {
            builder.setMessageGroup(text(given, "group"));
        }
        if (given.has("keys")) {
            List<String> keys = new ArrayList<>();
            given.getAsJsonArray("keys").forEach(key -> keys.add(key.getAsString()));
            builder.setKeys(keys.toArray(new String[0]));
        }
        if (given.has("due_ms")) {
            builder.setDeliveryTimestamp(given.get("due_ms").getAsLong());
        }
        if (given.has("properties")) {
            given.getAsJsonObject("properties").entrySet()
                .forEach(one -> builder.addProperty(one.getKey(), one.getValue().getAsString()));
        }
        return builder.build();
    }

    private static ClientConfiguration configuration(JsonObject given) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(text(given, "endpoints"))
            .enableSsl(given.has("tls") && given.get("tls").getAsBoolean())
            .setRequestTimeout(Duration.ofSeconds(
                given.has("timeout_s") ? given.get("timeout_s").getAsLong() : 10));
        if (!text(given, "namespace").isEmpty()) {
            builder.setNamespace(text(given, "namespace"));
        }
        if (!text(given, "access_key").isEmpty()) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                text(given, "access_key"), text(given, "secret_key")));
        }
        return builder.build();
    }

    private static Map<String, FilterExpression> filters(JsonObject given) {
        Map<String, FilterExpression> found = new HashMap<>();
        for (Map.Entry<String, JsonElement> one : given.getAsJsonObject("topics").entrySet()) {
            JsonElement wanted = one.getValue();
            found.put(one.getKey(), wanted.isJsonObject()
                ? new FilterExpression(
                    text(wanted.getAsJsonObject(), "sql"), FilterExpressionType.SQL92)
                : new FilterExpression(wanted.getAsString()));
        }
        return found;
    }

    private static Map<String, Object> shown(MessageView message) {
        ByteBuffer body = message.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        List<String> keys = new ArrayList<>(message.getKeys());
        Collections.sort(keys);
        Map<String, Object> told = new HashMap<>();
        told.put("message_id", message.getMessageId().toString());
        told.put("topic", message.getTopic());
        told.put("body", Base64.getEncoder().encodeToString(bytes));
        told.put("tag", message.getTag().orElse(""));
        told.put("keys", keys);
        told.put("group", message.getMessageGroup().orElse(""));
        told.put("properties", message.getProperties());
        told.put("attempt", message.getDeliveryAttempt());
        told.put("receipt", receiptOf(message));
        told.put("due_ms", message.getDeliveryTimestamp().orElse(0L));
        told.put("born_ms", message.getBornTimestamp());
        told.put("corrupted", inner(message, "isCorrupted"));
        return told;
    }

    private static String receiptOf(MessageView message) {
        Object receipt = inner(message, "getReceiptHandle");
        return receipt == null ? "" : receipt.toString();
    }

    /** What the classes behind the interfaces tell. */
    private static Object inner(Object one, String method) {
        try {
            return one.getClass().getMethod(method).invoke(one);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static TransactionResolution resolution(String answer) {
        switch (answer) {
            case "commit":
                return TransactionResolution.COMMIT;
            case "rollback":
                return TransactionResolution.ROLLBACK;
            default:
                return TransactionResolution.UNKNOWN;
        }
    }

    private static Map<String, Object> failure(Throwable error) {
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        Matcher found = CODE.matcher(String.valueOf(cause.getMessage()));
        Map<String, Object> told = new HashMap<>();
        told.put("kind", cause.getClass().getSimpleName());
        told.put("code", found.find() ? Integer.valueOf(found.group(1)) : null);
        told.put("message", String.valueOf(cause.getMessage()));
        return told;
    }

    private static Duration seconds(JsonObject given, String name) {
        return Duration.ofSeconds(given.get(name).getAsLong());
    }

    private static String text(JsonObject given, String name) {
        JsonElement found = given.has(name) ? given.get(name) : JsonNull.INSTANCE;
        return found.isJsonNull() ? "" : found.getAsString();
    }

    private static void tell(Map<String, Object> what) {
        synchronized (OUT) {
            OUT.println(GSON.toJson(what));
            OUT.flush();
        }
    }
}
